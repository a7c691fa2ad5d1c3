// The parts that all subcommands share: the command line, diagnostics on the terminal or as JSON, and tables of text.
// Boost.Program_options stays inside cli.cpp, so that a subcommand compiles quickly and reads plainly.
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

// The options of one subcommand: declared, parsed, then asked by name. `--help` and `--json` are always there.
//
//   CommandLine line("record", "model.pt -o model.whence.json", "Records where every operation comes from.");
//   line.positional("archive", "the TorchScript archive");
//   line.option("output,o", "FILE", "the sidecar to write");
//   if (!line.parse(argc, argv)) return ExitCode::ok;  // --help was asked for
enum class Target { another_file, may_be_the_model };  // the first positional argument

class CommandLine {
 public:
  CommandLine(std::string command, std::string usage, std::string description);
  ~CommandLine();

  void positional(const std::string& name, const std::string& help);       // required, in order of declaration
  void positional_word(const std::string& name, const std::string& help);  // the same, of what is not a file
  void optional_words(const std::string& name, const std::string& help);   // any number, behind all others: list()
  // Positional arguments and options with the placeholder FILE name files that are read; one of them may be `-`, which
  // stands for standard input: what comes from there is in a file of its own for as long as the command line is there.
  void option(const std::string& name, const std::string& placeholder, const std::string& help);
  void output(const std::string& name, const std::string& help, Target target = Target::another_file);
  void outputs(const std::string& name, const std::string& help);  // the same, several: list()
  void repeated(const std::string& name, const std::string& placeholder, const std::string& help);
  void flag(const std::string& name, const std::string& help);
  // An option of before: using it is an error that says what took its place.
  void removed(const std::string& name, const std::string& remedy);
  void example(const std::string& command_line);  // shown by --help
  // The words that an option or argument takes, for completions; one_of() is what checks them.
  void choices(const std::string& name, std::vector<std::string> words);

  // False when the help was printed instead, or the command line was described (description.h). Throws Error(usage)
  // with the nearest known option as remedy, and for files that are in each other's way (separate_files.h).
  bool parse(int argc, char** argv);

  bool has(const std::string& name) const;
  std::string text(const std::string& name) const;  // throws Error(usage) when it was not given
  std::string text_or(const std::string& name, std::string otherwise) const;
  std::optional<std::string> optional_text(const std::string& name) const;  // none when it was not given
  std::vector<std::string> list(const std::string& name) const;  // a repeated option's values, empty when not given
  // One of `words`, or `otherwise` when it was not given; throws Error(usage) for any other word.
  std::string one_of(const std::string& name, const std::vector<std::string>& words, std::string otherwise) const;
  std::int64_t integer_or(const std::string& name, std::int64_t otherwise) const;  // throws Error(usage)
  double seconds(const std::string& name) const;  // above 0; 0 when it was not given; throws Error(usage)
  std::optional<int> depth() const;               // levels of modules that --depth names; throws Error(usage)
  bool json() const { return has("json"); }

  std::vector<app::NamedFile> inputs() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The word, if it is one of `words`; throws Error(usage) with them otherwise. `name`: of the option that it was given
// for.
std::string one_of(const std::string& name, const std::string& word, const std::vector<std::string>& words);

// Diagnostics as people read them, on standard error.
void print_text(const Diagnostics& diagnostics);
// The JSON array of diagnostics, for a subcommand's own object.
std::string json_array(const Diagnostics& diagnostics);
// Diagnostics in the form the user asked for: text on standard error, or {"diagnostics": [...]} on standard output.
void print_diagnostics(const Diagnostics& diagnostics, bool json);

std::uint64_t size_of_file(const std::string& path);  // 0 for devices and pipes
std::string human_size(std::uint64_t bytes);          // "17.6 MB"

// ANSI sequence when standard error (or output) is a terminal and NO_COLOR is not set, else "".
enum class Color { red, yellow, green, dim, bold, reset };
std::string_view color_err(Color color);
std::string_view color_out(Color color);

}  // namespace whence
