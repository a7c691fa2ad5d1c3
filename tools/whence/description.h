// The command lines of all subcommands as data: completions and manual pages are made from it. A subcommand is
// described by the options that it declares (CommandLine); those that are written in Python by python_commands.json,
// which tools/setup/python_commands.py makes of their own parsers.
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
    std::string letter;       // "o" of -o; empty without one
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

// Runs the subcommand up to the place where it would parse its command line.
CommandDescription describe(const Command& command);

// Every subcommand, in the order of `whence --help`. An option of a subcommand's part in Python (`record --values`) is
// among its options.
std::vector<CommandDescription> describe_all();

struct CodeMeaning {
  const char *code, *meaning;
};
extern const std::vector<CodeMeaning> exit_code_meanings;

}  // namespace whence
