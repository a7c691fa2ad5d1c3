// A subcommand of `whence`. Each has a file of its own that ends with its `Command`; commands.cpp lists all of them.
//
// run() receives the arguments after the subcommand's name. It throws Error for every failure; main.cpp prints the
// diagnostics and converts their code to the exit code.
#pragma once

#include <span>

#include "whence/diagnostics.h"

namespace whence {

struct Command {
  const char* name;
  const char* summary;  // one line, for `whence --help`
  ExitCode (*run)(int argc, char** argv);
};

// Returns the subcommands that are not written in Python, in the order in which a new user needs them.
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
extern const Command attest_command;
extern const Command refit_command;
extern const Command weights_command;
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
