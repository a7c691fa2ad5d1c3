// Export: Program to ONNX graph. lower -> convert -> simplify -> names; write/ puts the result into a file.
#pragma once

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "annotator/graph/graph.h"
#include "annotator/lower/composites.h"
#include "schema/program.h"
#include "schema/result.h"

namespace whence::exporter {

inline constexpr int oldest_opset = 13;
inline constexpr int newest_opset = 23;
inline constexpr int default_opset = 20;

struct ExportOptions {
  int opset = default_opset;
  std::vector<std::string> input_names;  // in order; fewer than inputs: the rest keep forward's argument names
  std::vector<std::string> output_names;
  bool unsupported_as_domain = false;  // write operators without a converter as nodes of a custom domain
  // "mylib::op", or "mylib::op.Tensor" of one overload: written as nodes of that domain, even with a converter. Kept
  // ones hold their arguments exactly (custom_nodes.h), for a tool that replaces them.
  std::set<std::string> custom_operators, kept_operators;
  std::set<std::string> passed_through;  // namespaces whose operators without a converter become nodes of that domain
  bool simplify = true;
  // Parameters and buffers become inputs of the graph, behind the others and under their qualified names: a model
  // without its weights. What would be computed from them while exporting is computed by nodes.
  bool weights_as_inputs = false;
  // Writes what other exporters write: operators that turn out to do nothing (a pad by zero) still become a node, a
  // tied weight is transposed by one. For comparison only: nodes that do nothing lack the inputs that would make them
  // run.
  bool as_other_exporters = false;
  // Asked for operators that have no converter, once it is known that there are some; none: they are refused.
  lower::TraceComposite trace_composite;
  // Receives which value of the graph stands for which value of the program, where one does. Simplification may have
  // left the value without a producer.
  std::unordered_map<ValueId, graph::GraphValueId>* values = nullptr;
};

// The finished graph: names set, topological, no dead nodes. Errors: no_converter and converter_refused, one
// diagnostic per operator with count and places, all of them at once; usage for wrong names or opset. Notes:
// state_not_kept where the model writes to its parameters or buffers, unknown_node for kept operators that it lacks.
Result<graph::Graph> export_program(const Program& program, const ExportOptions& options);

}  // namespace whence::exporter
