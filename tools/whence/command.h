// A subcommand of `whence`: one file each, which ends with its entry; commands.cpp lists the entries in one table.
//
// run() receives the arguments after the subcommand's own name. It throws Error for whatever goes wrong; main.cpp
// prints the diagnostics and turns their code into the exit code.
#pragma once

#include <span>

#include "whence/diagnostics.h"

namespace whence {

struct Command {
  const char* name;
  const char* summary;  // one line, for `whence --help`
  ExitCode (*run)(int argc, char** argv);
};

// The subcommands of the command itself, in the order in which a newcomer meets them. commands.cpp has the table.
std::span<const Command* const> all_commands();

extern const Command annotate_command;
extern const Command carry_command;
extern const Command codes_command;
extern const Command completions_command;
extern const Command diff_command;
extern const Command doctor_command;
extern const Command dot_command;
extern const Command explain_command;
extern const Command export_command;
extern const Command extract_command;
extern const Command functions_command;
extern const Command graphml_command;
extern const Command inline_command;
extern const Command man_command;
extern const Command model_explorer_command;
extern const Command ops_command;
extern const Command place_command;
extern const Command profile_command;
extern const Command record_command;
extern const Command report_command;
extern const Command rules_command;
extern const Command select_command;
extern const Command show_command;
extern const Command skill_command;
extern const Command strip_command;
extern const Command validate_command;

}  // namespace whence
