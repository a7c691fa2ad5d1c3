#include "annotator/derivation/node_verdicts.h"

#include <algorithm>
#include <array>
#include <set>

#include "annotator/derivation/file_tensors.h"
#include "annotator/match/match.h"
#include "annotator/match/reference.h"
#include "schema/flat_map.h"

namespace whence::derivation {

using onnx_file::OnnxNode;

std::string_view name_of(NodeVerdict verdict) {
  static constexpr std::array<std::string_view, 4> names = {"operation", "movement", "size", "unaccounted"};
  return names[static_cast<std::size_t>(verdict)];
}

namespace {

// Operators that keep each element, or convert it to another type.
bool is_movement(std::string_view op_type) {
  static const std::set<std::string_view> movements = {
      "Cast",      "CastLike",       "Constant",    "DequantizeLinear", "DynamicQuantizeLinear",
      "Expand",    "Flatten",        "Identity",    "QuantizeLinear",   "Reshape",
      "Squeeze",   "Transpose",      "Split",       "ReorderInput",     "ReorderOutput",
      "Unsqueeze", "MemcpyFromHost", "MemcpyToHost"};
  return movements.contains(op_type);
}

// Finds values that depend on sizes and constants alone.
class Sizes {
 public:
  explicit Sizes(const onnx_file::OnnxSummary& model) {
    for (const onnx_file::OnnxTensor& tensor : model.graph.initializers) values_.insert(tensor.name);
  }

  // Nodes come in order: a node after those that it reads from.
  bool add(const OnnxNode& node) {
    const bool starts = node.op_type == "Shape" || node.op_type == "Size";
    const bool follows = node.subgraphs.empty() && std::ranges::all_of(node.inputs, [&](std::string_view input) {
                           return input.empty() || values_.contains(input);
                         });
    if (starts || follows) values_.insert(node.outputs.begin(), node.outputs.end());
    return starts || follows;
  }

 private:
  FlatSet<std::string_view> values_;
};

int opset_of(const onnx_file::OnnxSummary& model) {
  for (const onnx_file::OnnxOpset& opset : model.opsets) {
    if (opset.domain.empty() || opset.domain == "ai.onnx") return static_cast<int>(opset.version);
  }
  return 0;
}

}  // namespace

std::vector<NodeVerdict> node_verdicts(const onnx_file::OnnxSummary& model, const Program& program) {
  const std::vector<const OnnxNode*> nodes = onnx_file::all_nodes(model.graph);
  const match::Reference reference = match::make_reference(program, opset_of(model));
  const match::MatchReport report = match_model(model, reference);
  Sizes sizes(model);
  std::vector<NodeVerdict> verdicts;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool is_size = sizes.add(*nodes[i]);
    const bool is_known = i < report.nodes.size() && !report.nodes[i].units.empty();
    verdicts.push_back(is_known                         ? NodeVerdict::operation
                       : is_movement(nodes[i]->op_type) ? NodeVerdict::movement
                       : is_size                        ? NodeVerdict::size
                                                        : NodeVerdict::unaccounted);
  }
  return verdicts;
}

}  // namespace whence::derivation
