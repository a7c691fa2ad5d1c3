// Describes the subcommands in C++ by running them up to parse(), and those in Python from python_commands.json.
#include "tools/whence/description.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/whence/in_python.h"
#include "whence_texts.h"

namespace whence {
namespace {

using Json = nlohmann::json;

// Takes the choices from a placeholder such as `fused|plain`.
void take_choices_from_placeholder(CommandDescription::Option& option) {
  if (!option.choices.empty() || option.placeholder.find('|') == std::string::npos) return;
  const std::string& words = option.placeholder;
  if (words.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789|-") != std::string::npos) return;
  for (std::size_t begin = 0; begin <= words.size();) {
    const std::size_t end = std::min(words.find('|', begin), words.size());
    option.choices.push_back(words.substr(begin, end - begin));
    begin = end + 1;
  }
}

CommandDescription read_description(const Json& entry) {
  CommandDescription found;
  found.name = entry.at("name");
  found.usage = entry.at("usage");
  found.description = entry.at("description");
  for (const Json& each : entry.at("arguments")) {
    found.arguments.push_back({each.at("name"), each.at("help"), each.at("is_file"), each.at("repeated"), {}});
  }
  for (const Json& each : entry.at("options")) {
    found.options.push_back({each.at("name"), each.at("letter"), each.at("placeholder"), each.at("help"),
                             each.at("repeated"), each.at("choices")});
  }
  return found;
}

// Adds the options that only the Python part of a subcommand has.
void add_options(CommandDescription& command, const CommandDescription& part) {
  for (const auto& option : part.options) {
    const bool exists = std::ranges::any_of(command.options, [&](const auto& own) { return own.name == option.name; });
    if (!exists) command.options.push_back(option);
  }
}

}  // namespace

const std::vector<CodeMeaning> exit_code_meanings = {
    {"0", "ok"},          {"1", "findings"}, {"2", "usage"},    {"3", "malformed input"},
    {"4", "unsupported"}, {"5", "output"},   {"6", "security"}, {"70", "a bug"}};

bool CommandDescription::takes_files() const {
  return std::ranges::any_of(arguments, [](const Argument& each) { return each.is_file; });
}

std::vector<CommandDescription> describe_all() {
  std::vector<CommandDescription> all;
  for (const Command* command : all_commands()) all.push_back(describe(*command));
  for (const Json& entry : Json::parse(texts::python_commands)) {
    CommandDescription part = read_description(entry);
    const auto same = std::ranges::find(all, part.name, &CommandDescription::name);
    if (same != all.end()) {
      add_options(*same, part);
      continue;
    }
    for (const PythonCommand& each : python_commands) {
      if (part.name == each.name) part.summary = each.summary;
    }
    all.push_back(std::move(part));
  }
  for (CommandDescription& command : all) std::ranges::for_each(command.options, take_choices_from_placeholder);
  return all;
}

}  // namespace whence
