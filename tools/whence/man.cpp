// `whence man`: prints manual pages of the command and its subcommands, made from their descriptions.
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "schema/files/output_files.h"
#include "schema/nearest_names.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/description.h"
#include "tools/whence/printing.h"

namespace whence {
namespace {

using Commands = std::vector<CommandDescription>;

// Escapes text for troff: backslashes, hyphens, and a dot or quote at the start of a line, which would be a request.
std::string roff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    const bool first = escaped.empty() || escaped.back() == '\n';
    if (first && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Quotes a macro's argument, as in `.B "text"`. Quotes inside are doubled.
std::string argument(const std::string& text) {
  std::string escaped;
  for (const char c : roff(text)) escaped += c == '"' ? std::string("\"\"") : std::string(1, c);
  return "\"" + escaped + "\"";
}

// Keeps line breaks: filling would destroy tables and lists in the text.
std::string verbatim(const std::string& text) { return ".nf\n" + roff(text) + "\n.fi\n"; }

std::string head(const std::string& name, const std::string& summary) {
  std::string title = name;
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return ".TH " + argument(title) + " 1 \"\" " + argument("whence " WHENCE_VERSION) + " \"whence\"\n.SH NAME\n" +
         roff(name) + " \\- " + roff(summary) + "\n";
}

std::string option_text(const CommandDescription::Option& option) {
  std::string names = option.letter.empty() ? "" : "\\fB\\-" + option.letter + "\\fR, ";
  names += "\\fB" + roff("--" + option.name) + "\\fR";
  if (!option.is_flag()) names += " \\fI" + roff(option.placeholder) + "\\fR";
  std::string text = ".TP\n" + names + "\n" + roff(option.help);
  if (!option.choices.empty() && option.placeholder.find('|') == std::string::npos) {
    text += ".\nOne of";
    for (const std::string& word : option.choices) text += " \\fB" + roff(word) + "\\fR";
  }
  return text + (option.repeated ? ".\nMay be passed several times.\n" : ".\n");
}

std::string exit_status() {
  std::string text = ".SH EXIT STATUS\n";
  for (const CodeMeaning& each : exit_code_meanings) {
    text += std::string(".TP\n.B ") + each.code + "\n" + each.meaning + "\n";
  }
  return text;
}

std::string page_of(const CommandDescription& command) {
  std::string text = head("whence-" + command.name, command.summary) + ".SH SYNOPSIS\n.B " +
                     argument("whence " + command.name) + "\n" + roff(command.usage) + "\n.SH DESCRIPTION\n" +
                     verbatim(command.description);
  if (!command.arguments.empty()) text += ".SH ARGUMENTS\n";
  for (const auto& each : command.arguments) text += ".TP\n.I " + argument(each.name) + "\n" + roff(each.help) + "\n";
  text += ".SH OPTIONS\n";
  for (const auto& each : command.options) text += option_text(each);
  text += exit_status();
  if (!command.examples.empty()) text += ".SH EXAMPLES\n";
  for (const std::string& each : command.examples) text += verbatim(each);
  return text + ".SH SEE ALSO\n.BR whence (1)\n";
}

std::string page_of(const Commands& commands) {
  std::string text = head("whence", "shows which PyTorch module, call and source line every ONNX node comes from") +
                     ".SH SYNOPSIS\n.B whence\n.I command\n[options]\n.SH COMMANDS\n";
  for (const CommandDescription& command : commands) {
    text += ".TP\n.BR " + argument("whence-" + command.name) + " (1)\n" + roff(command.summary) + "\n";
  }
  text +=
      ".SH OPTIONS\n.TP\n.B \\-\\-help\nThe list of commands; after a command, its options.\n"
      ".TP\n.B \\-\\-version\nThe version of whence.\n.SH ENVIRONMENT\n"
      ".TP\n.B WHENCE_PYTHON\nThe Python interpreter for subcommands that are written in Python.\n"
      ".TP\n.B TORCH_DIR\nThe folder of PyTorch, for subcommands that need LibTorch.\n"
      ".TP\n.B NO_COLOR\nText without colours.\n";
  return text + exit_status();
}

std::string named_page(const Commands& commands, const std::string& name) {
  std::vector<std::string> names;
  for (const CommandDescription& command : commands) {
    if (command.name == name) return page_of(command);
    names.push_back(command.name);
  }
  const auto near = nearest(name, names);
  throw Error(Code::usage, "unknown command " + name,
              near ? "did you mean `whence man " + *near + "`?" : "`whence --help` lists the commands",
              {.stage = "command line"});
}

// Writes all pages, or none of them. Returns their paths.
std::vector<std::string> write_pages(const Commands& commands, const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    throw Error(Code::cannot_write, "the folder could not be created: " + failed.message(), "pass another folder",
                {.file = folder.string(), .stage = "write"});
  }
  std::vector<std::string> written;
  OutputFiles files;
  const auto add = [&](const std::string& name, const std::string& text) {
    written.push_back((folder / (name + ".1")).string());
    files.add(written.back()).write(text);
  };
  add("whence", page_of(commands));
  for (const CommandDescription& command : commands) add("whence-" + command.name, page_of(command));
  files.commit();
  return written;
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "man", "[COMMAND] [--all DIR]",
      "Prints the manual page of whence, or of one of its commands, for `man -l -`. With --all, writes all\n"
      "pages into a folder; man finds them if the folder is named man1 and its parent is in $MANPATH.");
  line.optional_words("command", "the command; none for the page of whence itself");
  line.option("all", "DIR", "write every page into this folder");
  line.example("whence man export | man -l -");
  line.example("whence man --all ~/.local/share/man/man1");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const Commands commands = describe_all();
  if (line.has("all")) {
    const std::vector<std::string> written = write_pages(commands, line.text("all"));
    line.json() ? print_json({{"files", written}})
                : void(std::cout << line.text("all") << ": " << written.size() << " pages\n");
    return ExitCode::ok;
  }
  const std::vector<std::string> words = line.list("command");
  if (words.size() > 1) {
    throw Error(Code::usage, "man takes one command", "--all DIR writes all pages", {.stage = "command line"});
  }
  const std::string page = words.empty() ? page_of(commands) : named_page(commands, words.front());
  line.json() ? print_json({{"page", page}}) : void(std::cout << page);
  return ExitCode::ok;
}

}  // namespace

const Command man_command = {"man", "print manual pages of whence and its commands", run};

}  // namespace whence
