// The command lines of all subcommands as data, for completions and manual pages. A subcommand in C++ is described by
// the options that it declares (CommandLine). Subcommands in Python are described by python_commands.json, which
// tools/setup/python_commands.py generates from their parsers.
#pragma once

#include <string>
#include <vector>

#include "tools/whence/command.h"

namespace whence {

struct CommandDescription {
  struct Argument {
    std::string name, help;
    bool is_file = false, repeated = false;
    std::vector<std::string> choices;
  };
  struct Option {
    std::string name;         // without --
    std::string letter;       // "o" for -o; empty if there is none
    std::string placeholder;  // "FILE"; empty for a flag
    std::string help;
    bool repeated = false;
    std::vector<std::string> choices;

    bool is_flag() const { return placeholder.empty(); }
    bool is_file() const { return placeholder == "FILE" || placeholder == "ARCHIVE" || placeholder == "PLACE"; }
    bool is_folder() const { return placeholder == "DIR" || placeholder == "FOLDER"; }
  };

  std::string name, summary, usage, description;
  std::vector<Argument> arguments;
  std::vector<Option> options;
  std::vector<std::string> examples;

  bool takes_files() const;
};

// Runs the subcommand until it would parse its command line, and returns its description.
CommandDescription describe(const Command& command);

// Returns every subcommand, in the order of `whence --help`. Options of a subcommand's Python part (`record --values`)
// are included.
std::vector<CommandDescription> describe_all();

struct CodeMeaning {
  const char *code, *meaning;
};
extern const std::vector<CodeMeaning> exit_code_meanings;

}  // namespace whence
