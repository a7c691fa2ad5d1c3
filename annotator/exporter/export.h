// Export: Program to ONNX graph. lower -> convert -> simplify -> names; write/ puts the result into a file.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "annotator/convert/convert.h"
#include "annotator/graph/graph.h"
#include "annotator/lower/composites.h"
#include "schema/program.h"
#include "schema/result.h"

namespace whence::exporter {

using graph::default_opset, graph::newest_opset, graph::oldest_opset;

struct ExportOptions : convert::ConvertOptions {
  std::vector<std::string> input_names;  // in order; fewer than inputs: the rest keep forward's argument names
  std::vector<std::string> output_names;
  bool simplify = true;
  // Parameters and buffers become inputs of the graph, behind the others and under their qualified names: a model
  // without its weights. What would be computed from them while exporting is computed by nodes.
  bool weights_as_inputs = false;
  // Operators compute in bfloat16 also where ONNX Runtime has no kernel for it on the CPU.
  bool keep_bfloat16 = false;
  // Asked for operators that have no converter, once it is known that there are some; none: they are refused.
  lower::TraceComposite trace_composite;
  // Receives which value of the graph stands for which value of the program, where one does. Simplification may have
  // left the value without a producer.
  std::unordered_map<ValueId, graph::GraphValueId>* values = nullptr;
};

// The finished graph: names set, topological, no dead nodes. Errors: no_converter and converter_refused, one
// diagnostic per operator with count and places, all of them at once; usage for wrong names or opset. Notes:
// state_not_kept where the model writes to its parameters or buffers, unknown_node for kept operators that it lacks,
// unsupported_feature for operators of bfloat16 that compute in float32.
Result<graph::Graph> export_program(const Program& program, const ExportOptions& options);

}  // namespace whence::exporter
