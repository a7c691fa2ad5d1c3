// `whence select`: names of the nodes of chosen modules, for tools that take lists of nodes.
#include <iostream>
#include <nlohmann/json.hpp>

#include "annotator/app/views.h"
#include "annotator/text/words.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/printing.h"

namespace whence {

using view::SelectedNode;

namespace {

using Json = nlohmann::ordered_json;

void print_names(const std::vector<SelectedNode>& nodes) {
  for (const SelectedNode& node : nodes) std::cout << node.name << "\n";
}

// Keywords of onnxruntime.quantization.quantize_static and quantize_dynamic.
void print_ort_quant(const std::vector<SelectedNode>& nodes) {
  Json names = Json::array();
  for (const SelectedNode& node : nodes) names.push_back(node.name);
  print_json({{"nodes_to_exclude", names}});
}

// The nodes of each module: what partitioners and per-layer annotations of ONNX Runtime take.
void print_by_module(const std::vector<SelectedNode>& nodes) {
  Json modules = Json::object();
  for (const SelectedNode& node : nodes) modules[node.module].push_back(node.name);
  print_json(modules);
}

void print_json(const std::vector<SelectedNode>& nodes, const Diagnostics& notes) {
  Json list = Json::array();
  for (const SelectedNode& node : nodes) {
    list.push_back({{"name", node.name},
                    {"op_type", node.op_type},
                    {"module", node.module},
                    {"confidence", name_of(node.confidence)}});
  }
  whence::print_json({{"nodes", list}}, notes);
}

// A list of names is of no use where nodes have none.
void require_names(const std::vector<SelectedNode>& nodes, const std::string& file) {
  for (const SelectedNode& node : nodes) {
    if (!node.name.empty()) continue;
    throw Error(Code::usage,
                "a " + node.op_type + " of " + (node.module.empty() ? "the root" : node.module) + " has no name",
                "`whence annotate` names every node", {.file = file, .stage = "select"});
  }
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "select", "annotated.onnx --modules GLOB [--not GLOB]... [--ops A,B] [--format names|ort-quant|modules]",
      "Lists the nodes of modules: to leave them out of a quantisation, or to partition a model. A glob\n"
      "means a module and all below it: `*` is one segment or a part of one, `**` any number of segments,\n"
      "`[0-3]` one of a set.");
  line.positional("file", "an annotated ONNX file");
  line.repeated("modules", "GLOB", "modules by qualified name; all by default");
  line.repeated("not", "GLOB", "but not these");
  line.option("ops", "A,B", "only nodes of these operator types");
  line.option("format", "FORMAT",
              "names: a line each (the default); ort-quant: nodes_to_exclude; modules: names by module");
  line.option("sidecar,s", "FILE", "the sidecar, for a file that was exported and not yet annotated");
  line.example("whence select bert.onnx --modules 'encoder.layer.[0-3]' --not '**.LayerNorm' --ops MatMul,Gemm");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::string format = line.one_of("format", {"names", "ort-quant", "modules"}, "names");
  const std::string file = line.text("file");
  const auto [nodes, notes] = app::select(
      file, {.sidecar = line.optional_text("sidecar"),
             .selection = {line.list("modules"), line.list("not"), text::split(line.text_or("ops", ""), ',')}});
  if (line.json()) {
    print_json(nodes, notes);
    return ExitCode::ok;
  }
  print_text(notes);
  require_names(nodes, file);
  format == "names" ? print_names(nodes) : format == "ort-quant" ? print_ort_quant(nodes) : print_by_module(nodes);
  return ExitCode::ok;
}

}  // namespace

const Command select_command = {"select", "names of the nodes of chosen modules", run};

}  // namespace whence
