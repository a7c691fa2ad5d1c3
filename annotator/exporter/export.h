// Export: Program to ONNX graph. lower -> convert -> simplify -> names; write/ puts the result into a file.
#pragma once

#include <memory>
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
  bool fold = true;  // constants take the place of what is computed of constants alone
  // Parameters and buffers become inputs of the graph, behind the others and under their qualified names: a model
  // without its weights. What would be computed from them while exporting is computed by nodes.
  bool weights_as_inputs = false;
  // Operators compute in bfloat16 also where ONNX Runtime has no kernel for it on the CPU.
  bool keep_bfloat16 = false;
  // Asked for operators that have no converter, once it is known that there are some; none: they are refused.
  lower::TraceComposite trace_composite;
};

// The finished graph: names set, topological, no dead nodes. Errors: no_converter and converter_refused, one
// diagnostic per operator with count and places, all of them at once; usage for wrong names or opset. Notes:
// state_not_kept where the model writes to its parameters or buffers, unknown_node for kept operators that it lacks,
// unsupported_feature for operators of bfloat16 that compute in float32.
Result<graph::Graph> export_program(const Program& program, const ExportOptions& options);

struct ExportForm {
  int opset = graph::default_opset;
  bool simplify = true;
  operators::OperatorForms operators = operators::OperatorForms::runnable;
  // As if nothing were known of the program before it runs: no size, no constant result. Other exporters write out
  // rearrangements without effect, sizes that cannot change, and arithmetic on constants; this form has them too.
  bool literal = false;

  bool operator==(const ExportForm&) const = default;
};

struct ExportedForm {
  std::shared_ptr<const graph::Graph> graph;
  // By value of the lowered program, the graph's value that stands for it, where one does. Simplification may have left
  // it without a producer.
  std::shared_ptr<const std::unordered_map<ValueId, graph::GraphValueId>> values;
};

// The graphs of one program in several forms, for comparison: each is what export_program() makes with `options` and
// the form, without names of nodes and of the values between them. What forms have in common is done once, and forms
// with equal graphs share one. `options`: names, trace_composite and keep_bfloat16 are not used, bfloat16 is always
// kept. Throws what export_program() returns as errors.
std::vector<ExportedForm> export_forms(const Program& program, const ExportOptions& options,
                                       const std::vector<ExportForm>& forms);

}  // namespace whence::exporter
