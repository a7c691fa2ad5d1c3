// Runs subcommands with hostile option values. Each line of the input is the letter of an option and its value.
#include <map>

#include "tests/fuzz/target.h"

namespace whence::fuzz {
namespace {

struct Option {
  const char* command;
  const char* name;  // null: the value is the last argument
};

// Options whose values are not names of output files.
const std::map<char, Option> options = {
    {'d', {"export", "--dynamic"}},
    {'i', {"export", "--input"}},
    {'t', {"export", "--default-dtype"}},
    {'o', {"export", "--opset"}},
    {'f', {"export", "--functions"}},
    {'k', {"export", "--keep-operator"}},
    {'c', {"export", "--custom-opset"}},
    {'n', {"export", "--input-names"}},
    {'N', {"export", "--output-names"}},
    {'u', {"export", "--on-unsupported"}},
    {'e', {"export", "--external-data-threshold"}},
    {'E', {"export", "--external-data-alignment"}},
    {'m', {"validate", "--min"}},
    {'M', {"validate", "--min-covered"}},
    {'r', {"validate", "--require"}},
    {'a', {"validate", "--allow"}},
    {'D', {"validate", "--depth"}},
    {'F', {"validate", "--format"}},
    {'s', {"show", "--select"}},
    {'g', {"select", "--modules"}},
    {'G', {"select", "--not"}},
    {'p', {"select", "--ops"}},
    {'P', {"place", "--rule"}},
    {'S', {"report", "--size"}},
    {'x', {"explain", nullptr}},
    {'K', {"annotate", "--keys"}},
    {'X', {"extract", "--module"}},
    {'C', {"extract", "--call"}},
    {'y', {"functions", "--types"}},
    {'Y', {"functions", "--modules"}},
    {'z', {"functions", "--depth"}},
};

std::vector<std::string> command_start(const std::string& command) {
  const ValidModel& valid = valid_model();
  std::vector<std::string> line = {command, command == "export" ? valid.archive : valid.model};
  for (const char* writes : {"export", "annotate", "extract", "functions", "report"}) {
    if (command == writes) line.insert(line.end(), {"-o", scratch(command == "report" ? "output.md" : "output.onnx")});
  }
  return line;
}

// Consecutive lines of one subcommand form one command line.
void run(std::string_view input) {
  std::vector<std::string> line;
  for (int lines = 0; !input.empty() && lines < 8; ++lines) {
    const std::string_view text = input.substr(0, input.find('\n'));
    input.remove_prefix(std::min(text.size() + 1, input.size()));
    const auto option = text.empty() ? options.end() : options.find(text.front());
    if (option == options.end() || text.find('\0') != std::string_view::npos) continue;
    if (!line.empty() && line.front() != option->second.command) {
      attempt([&] { run_command(line); });
      line.clear();
    }
    if (line.empty()) line = command_start(option->second.command);
    if (option->second.name == nullptr) line.emplace_back("--");
    // A single argument, so that the value cannot become an option that names an output file.
    line.push_back((option->second.name == nullptr ? "" : option->second.name + std::string("=")) +
                   std::string(text.substr(1)));
  }
  if (!line.empty()) run_command(line);
}

const Target target("command_line", run, 256);

}  // namespace
}  // namespace whence::fuzz
