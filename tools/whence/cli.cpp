// Implements the command line with Boost.Program_options, and prints diagnostics.
#include "tools/whence/cli.h"

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <sstream>

#include <unistd.h>

#include "annotator/app/separate_files.h"
#include "schema/files/files.h"
#include "schema/files/scratch_folder.h"
#include "schema/nearest_names.h"
#include "schema/parse_number.h"
#include "tools/whence/description.h"

namespace whence {

namespace po = boost::program_options;

namespace {

Error usage_error(const std::string& message, const std::string& remedy) {
  return Error(Code::usage, message, remedy, Place{.stage = "command line"});
}

CommandDescription* described = nullptr;  // set by describe(): parse() fills it in instead of parsing

// "output,o" -> "output"
std::string long_name(const std::string& name) { return name.substr(0, name.find(',')); }

// "output,o" -> "o"
std::string letter(const std::string& name) {
  const std::size_t comma = name.find(',');
  return comma == std::string::npos ? "" : name.substr(comma + 1);
}

bool coloured(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  return isatty(descriptor) != 0 && (no_color == nullptr || *no_color == '\0');
}

std::string_view ansi(Color color) {
  switch (color) {
    case Color::red:
      return "\033[31m";
    case Color::yellow:
      return "\033[33m";
    case Color::green:
      return "\033[32m";
    case Color::dim:
      return "\033[2m";
    case Color::bold:
      return "\033[1m";
    case Color::reset:
      return "\033[0m";
  }
  return "";
}

}  // namespace

struct CommandLine::State {
  std::string command, usage, description;
  po::options_description shown{"options", 110};  // the options that --help lists
  po::options_description hidden;
  po::positional_options_description positions;
  std::vector<std::string> positional_names, names, repeated, examples;
  std::vector<std::string> input_names, output_names;  // options and arguments that are files
  std::map<std::string, std::string> removed;          // removed options and their remedies
  bool in_place = false;
  std::optional<ScratchFolder> standard_input;  // holds the copy of standard input
  std::vector<std::pair<std::string, std::string>> positional_help;
  po::variables_map values;
  CommandDescription described;  // the declared options and arguments

  void describe_option(const std::string& name, const std::string& placeholder, const std::string& help,
                       bool repeated = false) {
    described.options.push_back({long_name(name), letter(name), placeholder, help, repeated, {}});
  }

  std::string help() const {
    std::ostringstream out;
    out << "usage: whence " << command << " " << usage << "\n\n" << description << "\n";
    if (!positional_help.empty()) out << "\narguments:\n";
    for (auto [name, text] : positional_help) {
      name.resize(std::max<std::size_t>(name.size() + 1, 26), ' ');
      out << "  " << name << text << "\n";
    }
    out << "\n" << shown;
    if (!examples.empty()) out << "\nexamples:\n";
    for (const std::string& line : examples) out << "  " << line << "\n";
    return out.str();
  }

  std::string called(const std::string& name) const {
    const bool positional = std::ranges::find(positional_names, name) != positional_names.end();
    if (!positional) return "--" + name;
    return (name.size() == 1 ? "file " : "the ") + name;  // `whence diff a b`
  }

  // Returns the files on the command line for these arguments and options.
  std::vector<app::NamedFile> files(const std::vector<std::string>& of) const {
    std::vector<app::NamedFile> found;
    for (const std::string& name : of) {
      if (values.count(name) == 0) continue;
      const auto& value = values[name].value();
      if (const auto* one = boost::any_cast<std::string>(&value)) found.push_back({called(name), *one});
      if (const auto* many = boost::any_cast<std::vector<std::string>>(&value)) {
        for (const std::string& path : *many) found.push_back({called(name), path});
      }
    }
    return found;
  }

  // Copies standard input to a temporary file, and replaces `-` with its path.
  void take_standard_input() {
    for (const std::string& name : input_names) {
      if (values.count(name) == 0) continue;
      auto& value = values.at(name).value();
      if (auto* one = boost::any_cast<std::string>(&value)) take_standard_input(*one);
      if (auto* many = boost::any_cast<std::vector<std::string>>(&value)) {
        for (std::string& path : *many) take_standard_input(path);
      }
    }
  }

  void take_standard_input(std::string& path) {
    if (path != "-") return;
    if (standard_input) throw usage_error("'-' was passed twice", "only one file can come from standard input");
    if (isatty(STDIN_FILENO) != 0) {
      throw usage_error("'-' reads standard input, which is a terminal",
                        "whence " + command + " - < model.onnx, or ./- for a file of that name");
    }
    standard_input.emplace(temporary_path("stdin"));
    path = standard_input->file("stdin");
    AtomicFile file(path);
    std::string piece(std::size_t{1} << 20, '\0');
    while (std::cin.read(piece.data(), static_cast<std::streamsize>(piece.size())) || std::cin.gcount() > 0) {
      file.write(std::string_view(piece).substr(0, static_cast<std::size_t>(std::cin.gcount())));
    }
    file.commit();
  }

  void require_named_outputs() const {
    for (const app::NamedFile& output : files(output_names)) {
      if (output.path.empty()) throw usage_error(output.name + " is empty", "name a file");
    }
  }

  void require_files_apart() const {
    const std::string in_place_input = in_place ? called(positional_names.front()) : "";
    std::vector<app::NamedFile> inputs = files(input_names);
    app::require_separate(inputs, files(output_names), in_place_input);
  }

  Error unknown_option(const std::string& option) const {
    const std::string word = option.substr(std::min(option.find_first_not_of('-'), option.size()));
    const auto former = removed.find(word);
    if (former != removed.end()) return usage_error("the option --" + word + " was removed", former->second);
    return usage_error("unknown option " + option, remedy_for(word));
  }

  std::string remedy_for(const std::string& word) const {
    if (const auto near = nearest(word, names)) return "did you mean --" + *near + "?";
    return "`whence " + command + " --help` lists the options";
  }
};

CommandLine::CommandLine(std::string command, std::string usage, std::string description)
    : state_(std::make_unique<State>()) {
  state_->command = std::move(command);
  state_->usage = std::move(usage);
  state_->description = std::move(description);
  flag("help,h", "this text");
  flag("json", "one JSON object on standard output, for machines");
}

CommandLine::~CommandLine() = default;

void CommandLine::positional(const std::string& name, const std::string& help) {
  state_->hidden.add_options()(name.c_str(), po::value<std::string>());
  state_->positions.add(name.c_str(), 1);
  state_->positional_names.push_back(name);
  state_->input_names.push_back(name);
  state_->positional_help.emplace_back(name, help);
  state_->described.arguments.push_back({name, help, /*is_file=*/true, /*repeated=*/false, {}});
}

void CommandLine::positional_word(const std::string& name, const std::string& help) {
  positional(name, help);
  state_->input_names.pop_back();
  state_->described.arguments.back().is_file = false;
}

void CommandLine::optional_words(const std::string& name, const std::string& help) {
  state_->hidden.add_options()(name.c_str(), po::value<std::vector<std::string>>());
  state_->positions.add(name.c_str(), -1);
  state_->repeated.push_back(name);
  state_->positional_help.emplace_back("[" + name + "...]", help);
  state_->described.arguments.push_back({name, help, /*is_file=*/false, /*repeated=*/true, {}});
}

void CommandLine::output(const std::string& name, const std::string& help, Target target) {
  state_->names.push_back(long_name(name));
  state_->output_names.push_back(long_name(name));
  state_->in_place |= target == Target::may_be_the_model;
  state_->describe_option(name, "FILE", help);
  state_->shown.add_options()(name.c_str(), po::value<std::string>()->value_name("FILE"), help.c_str());
}

void CommandLine::outputs(const std::string& name, const std::string& help) {
  state_->names.push_back(long_name(name));
  state_->repeated.push_back(long_name(name));
  state_->output_names.push_back(long_name(name));
  state_->describe_option(name, "FILE", help, /*repeated=*/true);
  state_->shown.add_options()(name.c_str(), po::value<std::vector<std::string>>()->value_name("FILE"), help.c_str());
}

void CommandLine::option(const std::string& name, const std::string& placeholder, const std::string& help) {
  state_->names.push_back(long_name(name));
  if (placeholder == "FILE") state_->input_names.push_back(long_name(name));
  state_->describe_option(name, placeholder, help);
  state_->shown.add_options()(name.c_str(), po::value<std::string>()->value_name(placeholder), help.c_str());
}

void CommandLine::repeated(const std::string& name, const std::string& placeholder, const std::string& help) {
  state_->names.push_back(long_name(name));
  state_->repeated.push_back(long_name(name));
  if (placeholder == "FILE") state_->input_names.push_back(long_name(name));
  state_->describe_option(name, placeholder, help, /*repeated=*/true);
  state_->shown.add_options()(name.c_str(), po::value<std::vector<std::string>>()->value_name(placeholder),
                              help.c_str());
}

void CommandLine::flag(const std::string& name, const std::string& help) {
  state_->names.push_back(long_name(name));
  state_->describe_option(name, "", help);
  state_->shown.add_options()(name.c_str(), help.c_str());
}

void CommandLine::removed(const std::string& name, const std::string& remedy) { state_->removed[name] = remedy; }

void CommandLine::example(const std::string& command_line) { state_->examples.push_back(command_line); }

void CommandLine::choices(const std::string& name, std::vector<std::string> words) {
  for (auto& option : state_->described.options) {
    if (option.name == name) option.choices = words;
  }
  for (auto& argument : state_->described.arguments) {
    if (argument.name == name) argument.choices = words;
  }
}

CommandDescription describe(const Command& command) {
  CommandDescription description;
  description.name = command.name;
  description.summary = command.summary;
  described = &description;
  struct Until {
    ~Until() { described = nullptr; }
  } const until_it_returns_or_throws;
  command.run(0, nullptr);
  return description;
}

bool CommandLine::parse(int argc, char** argv) {
  State& state = *state_;
  if (described != nullptr) {
    described->usage = state.usage;
    described->description = state.description;
    described->arguments = state.described.arguments;
    described->options = state.described.options;
    described->examples = state.examples;
    return false;
  }
  try {
    po::options_description all;
    all.add(state.shown).add(state.hidden);
    const std::vector<std::string> arguments(argv, argv + argc);
    // Does not accept abbreviations: the meaning of `--out` for `--output` would change with a new option.
    const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(arguments).options(all).positional(state.positions).style(style).run(),
              state.values);
  } catch (const po::unknown_option& error) {
    throw state.unknown_option(error.get_option_name());
  } catch (const po::too_many_positional_options_error&) {
    throw usage_error("too many arguments", "usage: whence " + state.command + " " + state.usage);
  } catch (const po::error& error) {
    throw usage_error(error.what(), "usage: whence " + state.command + " " + state.usage);
  }
  if (has("help")) {
    std::cout << state.help();
    return false;
  }
  for (const std::string& name : state.positional_names) {
    if (!has(name))
      throw usage_error("missing argument: " + name, "usage: whence " + state.command + " " + state.usage);
  }
  state.require_named_outputs();
  state.take_standard_input();
  state.require_files_apart();
  return true;
}

std::vector<app::NamedFile> CommandLine::inputs() const { return state_->files(state_->input_names); }

bool CommandLine::has(const std::string& name) const { return state_->values.count(name) > 0; }

std::string CommandLine::text(const std::string& name) const {
  if (!has(name)) {
    throw usage_error("missing option --" + name, "usage: whence " + state_->command + " " + state_->usage);
  }
  return state_->values[name].as<std::string>();
}

std::string CommandLine::text_or(const std::string& name, std::string otherwise) const {
  return has(name) ? text(name) : std::move(otherwise);
}

std::optional<std::string> CommandLine::optional_text(const std::string& name) const {
  return has(name) ? std::optional(text(name)) : std::nullopt;
}

std::vector<std::string> CommandLine::list(const std::string& name) const {
  return has(name) ? state_->values[name].as<std::vector<std::string>>() : std::vector<std::string>{};
}

std::string CommandLine::one_of(const std::string& name, const std::vector<std::string>& words,
                                std::string otherwise) const {
  return whence::one_of(name, text_or(name, std::move(otherwise)), words);
}

std::string one_of(const std::string& name, const std::string& word, const std::vector<std::string>& words) {
  if (std::ranges::find(words, word) != words.end()) return word;
  std::string remedy = words.front();
  for (std::size_t i = 1; i < words.size(); ++i) remedy += (i + 1 == words.size() ? " or " : ", ") + words[i];
  throw usage_error("unknown " + name + " '" + word + "'", remedy);
}

std::int64_t CommandLine::integer_or(const std::string& name, std::int64_t otherwise) const {
  if (!has(name)) return otherwise;
  const std::string given = text(name);
  if (const auto value = parse_number<std::int64_t>(given)) return *value;
  throw usage_error("--" + name + " takes an integer, not '" + given + "'", "use a whole number");
}

double CommandLine::seconds(const std::string& name) const {
  if (!has(name)) return 0;
  const std::string given = text(name);
  const auto value = parse_number<double>(given);
  if (value && *value > 0 && std::isfinite(*value)) return *value;
  throw usage_error("--" + name + " takes a number of seconds above 0, not '" + given + "'",
                    "for example: --" + name + " 600");
}

std::optional<int> CommandLine::depth() const {
  if (!has("depth")) return std::nullopt;
  const std::int64_t levels = integer_or("depth", 0);
  if (levels >= 0 && levels <= 1000) return static_cast<int>(levels);
  throw usage_error("--depth takes a number of levels from 0 to 1000", "for example: --depth 2");
}

void print_text(const Diagnostics& diagnostics) {
  for (const Diagnostic& diagnostic : diagnostics) {
    // Colours the first word: the code of an error, or "warning:" or "note:".
    const std::string text = to_text(diagnostic);
    const std::size_t word = std::min(text.find(' '), text.size());
    const Color color = diagnostic.severity == Severity::error     ? Color::red
                        : diagnostic.severity == Severity::warning ? Color::yellow
                                                                   : Color::dim;
    std::cerr << color_err(color) << text.substr(0, word) << color_err(Color::reset) << text.substr(word) << "\n";
  }
}

std::string json_array(const Diagnostics& diagnostics) {
  std::string text = "[";
  for (const Diagnostic& diagnostic : diagnostics) {
    if (text.size() > 1) text += ", ";
    text += to_json(diagnostic);
  }
  return text + "]";
}

void print_diagnostics(const Diagnostics& diagnostics, bool json) {
  if (json) {
    std::cout << "{\"diagnostics\": " << json_array(diagnostics) << "}\n";
  } else {
    print_text(diagnostics);
  }
}

std::uint64_t size_of_file(const std::string& path) {
  std::error_code none;
  const std::uintmax_t size = std::filesystem::file_size(path, none);
  return none ? 0 : size;
}

std::string human_size(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> units = {"B", "kB", "MB", "GB", "TB"};
  double size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1000 && unit + 1 < units.size(); ++unit) size /= 1000;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", size, units[unit]);
  return text.data();
}

std::string_view color_err(Color color) {
  static const bool on = coloured(STDERR_FILENO);
  return on ? ansi(color) : "";
}

std::string_view color_out(Color color) {
  static const bool on = coloured(STDOUT_FILENO);
  return on ? ansi(color) : "";
}

}  // namespace whence
