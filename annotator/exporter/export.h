// Export: converts a Program to an ONNX graph by lowering, conversion, simplification and naming; write/ writes the
// file.
#pragma once

#include <memory>
#include <set>
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
  std::vector<std::string> input_names;  // in order; inputs without an entry keep forward's argument names
  std::vector<std::string> output_names;
  bool simplify = true;
  bool fold = true;  // folds nodes with only constant inputs
  // Parameters and buffers become graph inputs, after the others and under their qualified names: a model without its
  // weights. Values computed from them are then computed by nodes instead of being folded at export.
  bool weights_as_inputs = false;
  std::set<std::string> weights_kept;  // qualified names of those that stay in the file all the same
  // Operators compute in bfloat16 even if ONNX Runtime has no CPU kernel for it.
  bool keep_bfloat16 = false;
  // Traces operators without a converter; called only if there are any. Without it they are refused.
  lower::TraceComposite trace_composite;
};

// Returns the finished graph: named, in topological order, without dead nodes. Errors: no_converter and
// converter_refused, one diagnostic per operator with count and locations, all at once; usage for wrong names or opset.
// Notes: state_not_kept if the model writes to its parameters or buffers, unknown_node for kept operators that it does
// not contain, unsupported_feature for bfloat16 operators that compute in float32.
Result<graph::Graph> export_program(const Program& program, const ExportOptions& options);

struct ExportForm {
  int opset = graph::default_opset;
  bool simplify = true;
  operators::OperatorForms operators = operators::OperatorForms::runnable;
  // Exports as if no size and no constant result were known before the run. Other exporters write out rearrangements
  // without effect, sizes that cannot change, and arithmetic on constants; this form contains them too.
  bool literal = false;

  bool operator==(const ExportForm&) const = default;
};

struct ExportedForm {
  std::shared_ptr<const graph::Graph> graph;
  // Maps values of the lowered program to the graph values that represent them. Simplification may have left such a
  // value without a producer.
  std::shared_ptr<const std::unordered_map<ValueId, graph::GraphValueId>> values;
};

// Exports one program in several forms, for comparison. Each graph is the one that export_program() returns for
// `options` and the form, without names of nodes and intermediate values. Work that several forms need is done once,
// and forms with equal graphs share one graph. Ignores names, trace_composite and keep_bfloat16 of `options`: bfloat16
// is always kept. Throws the errors that export_program() returns.
std::vector<ExportedForm> export_forms(const Program& program, const ExportOptions& options,
                                       const std::vector<ExportForm>& forms);

}  // namespace whence::exporter
