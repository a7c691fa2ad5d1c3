// The parts that all subcommands share: the command line, and diagnostics on the terminal or as JSON.
// Only cli.cpp includes Boost.Program_options, so that subcommands compile quickly.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schema/result.h"

namespace whence {

namespace app {
struct NamedFile;
}

enum class Target { another_file, may_be_the_model };  // whether an output may replace the first positional argument

// Declares and parses the options of one subcommand, and returns them by name. `--help` and `--json` always exist.
//
//   CommandLine line("record", "model.pt -o model.whence.json", "Records where every operation comes from.");
//   line.positional("archive", "the TorchScript archive");
//   line.option("output,o", "FILE", "the sidecar to write");
//   if (!line.parse(argc, argv)) return ExitCode::ok;  // --help was printed
class CommandLine {
 public:
  CommandLine(std::string command, std::string usage, std::string description);
  ~CommandLine();

  void positional(const std::string& name, const std::string& help);       // required, in order of declaration
  void positional_word(const std::string& name, const std::string& help);  // a required argument that is not a file
  void optional_words(const std::string& name, const std::string& help);   // any number, after all others: list()
  // Positional arguments and options with the placeholder FILE are input files. One of them may be `-` for standard
  // input, which is stored in a temporary file as long as this object exists.
  void option(const std::string& name, const std::string& placeholder, const std::string& help);
  void output(const std::string& name, const std::string& help, Target target = Target::another_file);
  void outputs(const std::string& name, const std::string& help);  // a repeated output: list()
  void repeated(const std::string& name, const std::string& placeholder, const std::string& help);
  void flag(const std::string& name, const std::string& help);
  // Declares a removed option: using it is an error with this remedy.
  void removed(const std::string& name, const std::string& remedy);
  void example(const std::string& command_line);  // shown by --help
  // Declares the words that an option or argument takes, for completions. Only one_of() checks them.
  void choices(const std::string& name, std::vector<std::string> words);

  // Returns false if the help was printed instead, or the command line was described (description.h). Throws
  // Error(usage) for an unknown option, with the nearest known one, and for conflicting files (separate_files.h).
  bool parse(int argc, char** argv);

  bool has(const std::string& name) const;
  std::string text(const std::string& name) const;  // throws Error(usage) if it is missing
  std::string text_or(const std::string& name, std::string otherwise) const;
  std::optional<std::string> optional_text(const std::string& name) const;  // none if it is missing
  std::vector<std::string> list(const std::string& name) const;             // a repeated option's values
  // Returns one of `words`, or `otherwise` if the option is missing. Throws Error(usage) for any other word.
  std::string one_of(const std::string& name, const std::vector<std::string>& words, std::string otherwise) const;
  std::int64_t integer_or(const std::string& name, std::int64_t otherwise) const;  // throws Error(usage)
  double seconds(const std::string& name) const;  // above 0; 0 if it is missing; throws Error(usage)
  std::optional<int> depth() const;               // the value of --depth; throws Error(usage)
  bool json() const { return has("json"); }

  std::vector<app::NamedFile> inputs() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns the word if it is one of `words`, else throws Error(usage) that lists them. `name` is the option's name.
std::string one_of(const std::string& name, const std::string& word, const std::vector<std::string>& words);

// Prints diagnostics as text on standard error.
void print_text(const Diagnostics& diagnostics);
// Returns diagnostics as a JSON array, for a subcommand's own object.
std::string json_array(const Diagnostics& diagnostics);
// Prints diagnostics as text on standard error, or as {"diagnostics": [...]} on standard output.
void print_diagnostics(const Diagnostics& diagnostics, bool json);

std::uint64_t size_of_file(const std::string& path);  // 0 for devices and pipes
std::string human_size(std::uint64_t bytes);          // "17.6 MB"

// Returns the ANSI sequence if standard error (or output) is a terminal and NO_COLOR is not set, else "".
enum class Color { red, yellow, green, dim, bold, reset };
std::string_view color_err(Color color);
std::string_view color_out(Color color);

}  // namespace whence
