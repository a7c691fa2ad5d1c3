// constant -> Transpose                                before; also Reshape, Squeeze, Unsqueeze, Flatten, Cast
// constant'                                            after: in the layout that the graph needs
// Condition: the new constant makes the file no larger (schema/folding.h), or all of its readers become small constants
// next (spectral_norm reads its weight as a matrix). Origins: the new constant has the origin of the node it replaces.
#include <algorithm>

#include "annotator/convert/weights.h"
#include "annotator/program/tensor_values.h"
#include "annotator/simplify/evaluate/evaluate.h"
#include "annotator/simplify/evaluate/numbers.h"
#include "annotator/simplify/rule.h"

namespace whence::simplify {

using graph::GraphNode;
using graph::no_value;

namespace {

std::uint64_t bytes_of_result(const GraphNode& node, const TensorData& data) {
  if (!is(node, "Cast")) return data.bytes.size();
  const auto elements = static_cast<std::uint64_t>(data.element_count());
  return elements * size_of(from_onnx(static_cast<int>(node.int_attribute("to", 0))));
}

std::optional<TensorData> fold(const Rewriter& r, const GraphNode& node, const TensorData& data) {
  if (is(node, "Transpose")) {
    const graph::Attribute* permutation = node.find("perm");
    if (permutation == nullptr) return std::nullopt;
    return convert::permuted(data, std::get<std::vector<std::int64_t>>(permutation->value));
  }
  if (is(node, "Cast")) return program::cast_tensor(data, from_onnx(static_cast<int>(node.int_attribute("to", 0))));
  if (is(node, operators::reshapes)) {
    const auto shape = r.static_dims(node.outputs[0]);
    if (!shape) return std::nullopt;
    return convert::reshaped(data, *shape);
  }
  return std::nullopt;
}

// Returns true if every user computes a small constant from the node's result and other constants. Small: within the
// folding limits, or at most 1/64 of the data, like the vectors of spectral_norm.
bool serves_small_constants(Rewriter& r, const GraphNode& node, const TensorData& data) {
  constexpr std::uint64_t small_part = 64;
  FoldedConstants from = r.constants_read(node);
  from.removed_bytes = data.bytes.size() / small_part;
  const auto users = r.users(node.outputs[0]);
  return !users.empty() && std::ranges::all_of(users, [&](std::int32_t index) {
    const GraphNode& user = r.node(index);
    if (!can_evaluate(user)) return false;
    const auto dims = r.static_dims(user.outputs[0]);
    if (!dims || count_of(*dims) * size_of(r.value(user.outputs[0]).dtype) > max_folded_bytes(from)) return false;
    return std::ranges::all_of(user.inputs, [&](graph::GraphValueId input) {
      return input == no_value || input == node.outputs[0] || r.constant(input) != nullptr;
    });
  });
}

// Returns the new name, "query.weight.T". A folded constant keeps its name, which already ends with ".folded".
std::string name_of_layout(const std::string& name, const GraphNode& node) {
  if (name.empty() || name.ends_with(".folded")) return name;
  if (is(node, "Transpose")) return name + ".T";
  return name + (is(node, "Cast") ? ".cast" : ".reshaped");
}

}  // namespace

Outcome fold_layout(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& node = rewriter.node(index);
  if (!node.domain.empty() || node.inputs.empty() || node.outputs.size() != 1) return no_match();
  const graph::GraphValueId input = node.inputs[0];
  const TensorData* data = rewriter.constant(input);
  if (data == nullptr || rewriter.value(input).captured != no_value) return no_match();
  if (bytes_of_result(node, *data) > max_folded_bytes(rewriter.constants_read(node)) &&
      !serves_small_constants(rewriter, node, *data)) {
    return is(node, "Transpose") ? refused("other nodes use the weight without the Transpose") : no_match();
  }
  if (rewriter.is_output(node.outputs[0])) return no_match();
  auto folded = fold(rewriter, node, *data);
  if (!folded) return no_match();
  rewriter.fold(index, std::move(*folded), name_of_layout(rewriter.value(input).name, node));
  return changed();
}

}  // namespace whence::simplify
