// `whence completions`: prints scripts that complete whence's command lines in a shell.
#include <iostream>
#include <nlohmann/json.hpp>

#include "schema/files/files.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/description.h"
#include "tools/whence/printing.h"
#include "tools/whence/shell_scripts.h"

namespace whence {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> kShells = {"bash", "zsh", "fish"};

Json to_json(const std::vector<CommandDescription>& commands) {
  Json list = Json::array();
  for (const CommandDescription& command : commands) {
    Json arguments = Json::array(), options = Json::array();
    for (const auto& each : command.arguments) {
      arguments.push_back({{"name", each.name},
                           {"help", each.help},
                           {"file", each.is_file},
                           {"repeated", each.repeated},
                           {"choices", each.choices}});
    }
    for (const auto& each : command.options) {
      options.push_back({{"name", each.name},
                         {"letter", each.letter},
                         {"value", each.placeholder},
                         {"help", each.help},
                         {"repeated", each.repeated},
                         {"choices", each.choices}});
    }
    list.push_back({{"command", command.name},
                    {"summary", command.summary},
                    {"arguments", arguments},
                    {"options", options},
                    {"examples", command.examples}});
  }
  return {{"commands", list}};
}

std::string script_for(const std::string& shell) {
  const std::vector<CommandDescription> commands = describe_all();
  if (shell == "bash") return bash_script(commands);
  return shell == "zsh" ? zsh_script(commands) : fish_script(commands);
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "completions", "bash|zsh|fish [-o FILE]",
      "Prints a script that completes subcommands, options and their values in a shell. With --json: every\n"
      "subcommand with its arguments and options.");
  line.optional_words("shell", "bash, zsh or fish");
  line.choices("shell", kShells);
  line.output("output,o", "the file to write; standard output by default");
  line.example("source <(whence completions bash)");
  line.example("whence completions zsh -o ~/.zfunc/_whence");
  line.example("whence completions fish -o ~/.config/fish/completions/whence.fish");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::vector<std::string> words = line.list("shell");
  if (line.json() && words.empty()) {
    print_json(to_json(describe_all()));
    return ExitCode::ok;
  }
  if (words.size() != 1) {
    throw Error(Code::usage, "completions takes one shell", "choose bash, zsh or fish", {.stage = "command line"});
  }
  const std::string script = script_for(one_of("shell", words.front(), kShells));
  const std::string output = line.text_or("output", "");
  if (!output.empty()) write_file(output, script);
  if (line.json()) {
    print_json(output.empty() ? Json{{"shell", words.front()}, {"script", script}}
                              : Json{{"shell", words.front()}, {"file", output}});
  } else if (output.empty()) {
    std::cout << script;
  }
  return ExitCode::ok;
}

}  // namespace

const Command completions_command = {"completions", "print scripts that complete command lines in a shell", run};

}  // namespace whence
