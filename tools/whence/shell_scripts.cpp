// Writes completion scripts for bash, zsh and fish.
#include "tools/whence/shell_scripts.h"

#include <functional>

namespace whence {
namespace {

using Option = CommandDescription::Option;
using Argument = CommandDescription::Argument;
using Commands = std::vector<CommandDescription>;

std::string joined(const std::vector<std::string>& words, const std::string& between = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// Returns the first clause of a help text, because shells show only one line.
std::string clause(const std::string& help) {
  const std::string line = replaced(help, "\n", " ");
  const std::size_t end = std::min(line.find("; "), line.size());
  return end <= 90 ? line.substr(0, end) : line.substr(0, line.rfind(' ', 90)) + " ...";
}

// Returns the flags of an option: "--output", "-o".
std::vector<std::string> flags(const Option& option) {
  std::vector<std::string> words = {"--" + option.name};
  if (!option.letter.empty()) words.push_back("-" + option.letter);
  return words;
}

std::vector<std::string> all_flags(const CommandDescription& command, const std::function<bool(const Option&)>& take) {
  std::vector<std::string> words;
  for (const Option& option : command.options) {
    if (!take(option)) continue;
    for (std::string& word : flags(option)) words.push_back(std::move(word));
  }
  return words;
}

std::vector<std::string> names(const Commands& commands) {
  std::vector<std::string> words;
  for (const CommandDescription& command : commands) words.push_back(command.name);
  return words;
}

// Returns the words that a subcommand accepts as arguments.
std::vector<std::string> argument_choices(const CommandDescription& command) {
  std::vector<std::string> words;
  for (const Argument& argument : command.arguments) {
    words.insert(words.end(), argument.choices.begin(), argument.choices.end());
  }
  return words;
}

// Returns a line of a `case` on the word before the completed one; "" if there are no words.
std::string bash_case(const std::vector<std::string>& words, const std::string& action) {
  return words.empty() ? "" : "        " + joined(words, "|") + ") " + action + "; return ;;\n";
}

// Returns 'text' in single quotes for zsh and fish. For a quote in the text, closes the quotes, adds an escaped quote
// and reopens them.
std::string in_quotes(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

// Escapes the text of a message in an argument of zsh's _arguments.
std::string zsh_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string zsh_action(bool is_file, bool is_folder, const std::vector<std::string>& choices) {
  if (!choices.empty()) return "(" + joined(choices) + ")";
  if (is_folder) return "_files -/";
  return is_file ? "_files" : " ";
}

std::string zsh_option(const Option& option) {
  std::string text;
  for (const std::string& flag : flags(option)) {
    // A value is in the next word, or follows = after a long flag, or directly follows a short flag.
    const std::string with_value = option.is_flag() ? "" : flag.starts_with("--") ? "=" : "+";
    std::string spec = (option.repeated ? "*" : "") + flag + with_value + "[" + zsh_text(clause(option.help)) + "]";
    if (!option.is_flag()) {
      spec +=
          ":" + zsh_text(option.placeholder) + ":" + zsh_action(option.is_file(), option.is_folder(), option.choices);
    }
    text += " \\\n        " + in_quotes(spec);
  }
  return text;
}

std::string zsh_argument(const Argument& argument) {
  return " \\\n        " + in_quotes((argument.repeated ? "*:" : ":") + zsh_text(argument.name) + ":" +
                                     zsh_action(argument.is_file, false, argument.choices));
}

std::string fish_option(const std::string& condition, const Option& option) {
  std::string text = "complete -c whence -n " + condition + " -l " + option.name;
  if (!option.letter.empty()) text += " -s " + option.letter;
  if (!option.choices.empty()) {
    text += " -x -a " + in_quotes(joined(option.choices));
  } else if (option.is_folder()) {
    text += " -x -a '(__fish_complete_directories)'";
  } else if (!option.is_flag()) {
    text += option.is_file() ? " -r -F" : " -x";
  }
  return text + " -d " + in_quotes(clause(option.help)) + "\n";
}

}  // namespace

std::string bash_script(const Commands& commands) {
  std::string text =
      "# Completes command lines of whence in bash. Written by `whence completions bash`.\n"
      "_whence() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  # Bash splits --option=value into three words.\n"
      "  if [[ $current == = ]]; then current=; elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
      "  _whence_words() { COMPREPLY=($(compgen -W \"$1\" -- \"$current\")); }\n"
      "  _whence_files() {\n"
      "    compopt -o filenames 2>/dev/null\n"
      "    mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$current\")\n"
      "  }\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    _whence_words \"" +
      joined(names(commands)) +
      " help --help --version\"\n"
      "    return\n"
      "  fi\n"
      "  # After -- comes another command (carry).\n"
      "  if [[ \" ${COMP_WORDS[*]:0:COMP_CWORD} \" == *\" -- \"* ]]; then\n"
      "    if [[ $before == -- || $before == --then ]]; then _whence_files -c; else _whence_files -f; fi\n"
      "    return\n"
      "  fi\n"
      "  case ${COMP_WORDS[1]} in\n"
      "    help) _whence_words \"" +
      joined(names(commands)) + "\" ;;\n";
  for (const CommandDescription& command : commands) {
    text += "    " + command.name + ")\n      case $before in\n";
    for (const Option& option : command.options) {
      if (!option.choices.empty()) text += bash_case(flags(option), "_whence_words \"" + joined(option.choices) + "\"");
    }
    text += bash_case(all_flags(command, [](const Option& each) { return each.choices.empty() && each.is_file(); }),
                      "_whence_files -f");
    text += bash_case(all_flags(command, [](const Option& each) { return each.is_folder(); }), "_whence_files -d");
    text +=
        bash_case(all_flags(command,
                            [](const Option& each) {
                              return !each.is_flag() && each.choices.empty() && !each.is_file() && !each.is_folder();
                            }),
                  ":");
    text += "      esac\n      if [[ $current == -* ]]; then\n        _whence_words \"" +
            joined(all_flags(command, [](const Option&) { return true; })) + "\"\n";
    const std::vector<std::string> words = argument_choices(command);
    if (!words.empty()) text += "      else\n        _whence_words \"" + joined(words) + "\"\n";
    if (words.empty() && command.takes_files()) text += "      else\n        _whence_files -f\n";
    text += "      fi ;;\n";
  }
  return text + "  esac\n}\ncomplete -F _whence whence\n";
}

std::string zsh_script(const Commands& commands) {
  std::string text =
      "#compdef whence\n"
      "# Completes command lines of whence in zsh. Written by `whence completions zsh`.\n"
      "_whence() {\n"
      "  local -a commands\n"
      "  commands=(\n";
  for (const CommandDescription& command : commands) {
    text += "    " + in_quotes(command.name + ":" + zsh_text(command.summary)) + "\n";
  }
  text +=
      "  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe -t commands 'command of whence' commands\n"
      "    return\n"
      "  fi\n"
      "  local name=$words[2]\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  case $name in\n"
      "    help) _describe -t commands 'command of whence' commands ;;\n";
  for (const CommandDescription& command : commands) {
    text += "    " + command.name + ")\n      _arguments";
    for (const Option& option : command.options) text += zsh_option(option);
    for (const Argument& argument : command.arguments) text += zsh_argument(argument);
    text += " ;;\n";
  }
  return text +
         "  esac\n}\n"
         "if [[ $funcstack[1] == _whence ]]; then _whence \"$@\"; else compdef _whence whence; fi\n";
}

std::string fish_script(const Commands& commands) {
  std::string text =
      "# Completes command lines of whence in fish. Written by `whence completions fish`.\n"
      "complete -c whence -f\n"
      "complete -c whence -n __fish_use_subcommand -l help -s h -d 'this text'\n"
      "complete -c whence -n __fish_use_subcommand -l version -d 'version of whence'\n";
  for (const CommandDescription& command : commands) {
    text +=
        "complete -c whence -n __fish_use_subcommand -a " + command.name + " -d " + in_quotes(command.summary) + "\n";
  }
  text += "complete -c whence -n '__fish_seen_subcommand_from help' -a " + in_quotes(joined(names(commands))) + "\n";
  for (const CommandDescription& command : commands) {
    const std::string condition = in_quotes("__fish_seen_subcommand_from " + command.name);
    if (command.takes_files()) text += "complete -c whence -n " + condition + " -F\n";
    const std::vector<std::string> words = argument_choices(command);
    if (!words.empty()) text += "complete -c whence -n " + condition + " -a " + in_quotes(joined(words)) + "\n";
    for (const Option& option : command.options) text += fish_option(condition, option);
  }
  return text;
}

}  // namespace whence
