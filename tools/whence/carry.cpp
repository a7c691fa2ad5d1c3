// `whence carry`: runs a tool on an annotated file, and writes the origins into the tool's output.
#include "whence/carry.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include <unistd.h>

#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/printing.h"

namespace whence {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view tools_follow = "--", next_tool = "--then";

// Splits the words after `--` at each --then.
std::vector<ToolCommand> tools_in(std::span<char*> words) {
  std::vector<ToolCommand> tools;
  if (!words.empty()) tools.emplace_back();
  for (const std::string_view word : words) {
    if (word == next_tool) {
      tools.emplace_back();
    } else {
      tools.back().emplace_back(word);
    }
  }
  return tools;
}

void add(Json& object, const NodeCounts& nodes) {
  object["nodes"] = nodes.total();
  object["exact"] = nodes.exact;
  object["matched"] = nodes.matched;
  object["inferred"] = nodes.inferred;
  object["ancestor"] = nodes.ancestor;
  object["unattributed"] = nodes.unattributed;
}

void print_json(const CarryReport& report, const std::string& output) {
  Json object = {{"file", output}}, before, tools = Json::array();
  add(object, report.result.nodes);
  object["changed"] = report.result.changed;
  add(before, report.before);
  object["before"] = before;
  for (const CarryReport::Step& step : report.steps) {
    Json entry = {{"tool", step.tool}};
    add(entry, step.nodes);
    entry["seconds"] = step.seconds;
    tools.push_back(entry);
  }
  object["tools"] = tools;
  print_json(std::move(object), report.result.notes);
}

void print_line(const std::string& of, const NodeCounts& nodes) {
  std::cout << of << ": " << nodes.total() << (nodes.total() == 1 ? " node" : " nodes");
  if (nodes.total() > 0) std::cout << ": " << describe(nodes);
}

void print_people(const CarryReport& report, const std::string& model, const std::string& output) {
  print_text(report.result.notes);
  print_line(model, report.before);
  std::cout << "\n";
  for (const CarryReport::Step& step : report.steps) {
    print_line("  " + step.tool, step.nodes);
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "; %.1f s\n", step.seconds);
    std::cout << seconds;
  }
  print_line(output, report.result.nodes);
  std::cout << "\n";
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "carry", "model.onnx -o out.onnx -- TOOL {in} {out} [--then TOOL {in} {out}]...",
      "Runs a tool on an annotated file, and annotates the tool's output with the origins of its nodes: optimisers,\n"
      "quantisers and converters drop them, or leave them on nodes that they changed. {in} becomes the path of a copy\n"
      "of the model, {out} the path for the tool's file; a tool without {out} changes {in}. Names, order and weights\n"
      "are those of the tool. After --then comes another tool, which gets the output of the tool before.\n"
      "For a tool that is a Python function, use `whence.carry(path, function)` in Python.");
  line.positional("model", "an annotated file; it is not changed");
  declare_model_output(line, "the tool's file, with origins", Target::another_file);
  line.option("timeout", "SECONDS", "stop a tool that takes longer; no limit by default");
  line.option("check", "FILE",
              "recorded values: also name the tool that broke the numbers, and its pass or rule; needs the Python\n"
              "package: `whence carry --check - --help`");
  line.option("sidecar", "FILE", "with --check: states which operation computed each module's result");
  line.example("whence carry bert.annotated.onnx -o bert.slim.onnx -- onnxslim {in} {out}");
  line.example(
      "whence carry bert.annotated.onnx -o bert.small.onnx -- onnxsim {in} {out} --then python quantise.py {in} {out}");
  const auto words = std::span(argv, static_cast<std::size_t>(argc));
  const auto end = std::ranges::find(words, tools_follow, [](const char* word) { return std::string_view(word); });
  const auto own = static_cast<std::size_t>(end - words.begin());
  if (!line.parse(static_cast<int>(own), argv)) return ExitCode::ok;

  if (line.has("sidecar"))
    throw Error(Code::usage, "--sidecar is for --check", "pass the recorded values with --check",
                {.stage = "command line"});
  CarryOptions options;
  options.timeout = line.seconds("timeout");
  options.overwrite = line.has("overwrite");
  options.show_words = ::isatty(STDERR_FILENO) != 0;
  const std::string model = line.text("model"), output = line.text("output");
  const auto tools = tools_in(words.subspan(std::min(own + 1, words.size())));
  const CarryReport report = carry(model, output, tools, options);
  line.json() ? print_json(report, output) : print_people(report, model, output);
  return ExitCode::ok;
}

}  // namespace

const Command carry_command = {"carry", "run an optimiser or quantiser and keep the origins", run};

}  // namespace whence
