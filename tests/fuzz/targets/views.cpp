// Runs every subcommand that displays a file.
#include "annotator/onnx_file/onnx_summary.h"
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"

namespace whence::fuzz {
namespace {

// Returns a name that exists in the file, because unknown names are refused at once.
std::string name_of_last_node(const std::string& model) {
  const auto summary = value_of(onnx_file::read_onnx_summary(model));
  const auto nodes = onnx_file::all_nodes(summary.graph);
  return nodes.empty() || nodes.back()->name.empty() ? "none" : std::string(nodes.back()->name);
}

void run(std::string_view input) {
  const std::string model = file_of("model.onnx", input), output = scratch("output"), name = name_of_last_node(model);
  const ValidModel& valid = valid_model();
  const std::vector<std::string> lines[] = {
      {"show", model},
      {"show", model, "--json", "--sidecar", valid.sidecar},
      {"explain", "--", model, name},
      {"explain", "--json", "--", model, name},
      {"diff", model, valid.model, "--all", "--nodes"},
      {"diff", valid.model, model, "--json"},
      {"validate", model, "--min", "covered=50@*", "--require", "**", "--baseline", model, "--all"},
      {"validate", model, "--sidecar", valid.sidecar, "--format", "sarif"},
      {"validate", model, "--conformance", valid.model},
      {"validate", valid.model, "--conformance", model, "--json"},
      {"select", model, "--format", "trt-precisions", "--partial"},
      {"select", model, "--format", "nncf-openvino"},
      {"select", model, "--format", "graphsurgeon"},
      {"select", model, "--modules", "**", "--json"},
      {"place", model, "--rule", "gpu=**", "--default", "cpu", "-o", output + ".onnx"},
      {"place", model, "--json"},
      {"report", model, "-o", output + ".html"},
      {"report", model, "-o", output + ".md", "--sidecar", valid.sidecar},
      {"dot", model, "-o", output + ".dot"},
      {"graphml", model, "-o", output + ".graphml"},
      {"model-explorer", model, "-o", output + ".graph.json"},
      {"model-explorer", model, "--confidence", "-o", output + ".confidence.json"},
  };
  std::vector<std::function<void()>> parts;
  for (const std::vector<std::string>& line : lines) {
    parts.emplace_back([&] { run_command(line); });
  }
  attempt_each(input, parts);
}

const Target target("views", run, 8192, mutate_protobuf);

}  // namespace
}  // namespace whence::fuzz
