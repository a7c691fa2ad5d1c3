// constant -> Transpose                                before; also Reshape, Squeeze, Unsqueeze, Flatten, Cast
// constant'                                            after: laid out as the graph needs it
// Condition: nothing else uses the constant, or it is small, or all that reads the result becomes a small constant next
// (spectral_norm reads its weight as a matrix); else the file would hold the weight twice. Origins: the new constant
// has the origin of the node it replaces.
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

constexpr std::int64_t small_layout = 32768;  // bytes

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

// True if every user computes a small constant from the node's result and other constants.
bool serves_small_constants(Rewriter& r, const GraphNode& node) {
  const auto users = r.users(node.outputs[0]);
  return !users.empty() && std::ranges::all_of(users, [&](std::int32_t index) {
    const GraphNode& user = r.node(index);
    if (!can_evaluate(user)) return false;
    const auto dims = r.static_dims(user.outputs[0]);
    if (!dims || count_of(*dims) * static_cast<std::int64_t>(size_of(r.value(user.outputs[0]).dtype)) > small_layout)
      return false;
    return std::ranges::all_of(user.inputs, [&](graph::GraphValueId input) {
      return input == no_value || input == node.outputs[0] || r.constant(input) != nullptr;
    });
  });
}

// "query.weight.T". What was computed of a parameter says so already.
std::string laid_out(const std::string& name, const GraphNode& node) {
  if (name.empty() || name.ends_with(".folded")) return name;
  if (is(node, "Transpose")) return name + ".T";
  return name + (is(node, "Cast") ? ".cast" : ".reshaped");
}

}  // namespace

Outcome fold_layout(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& node = rewriter.node(index);
  if (!node.domain.empty() || node.inputs.empty() || node.outputs.size() != 1) return not_mine();
  const graph::GraphValueId input = node.inputs[0];
  const TensorData* data = rewriter.constant(input);
  if (data == nullptr || rewriter.value(input).captured != no_value) return not_mine();
  const bool alone = rewriter.use_count(input) == 1;
  if (!alone && data->bytes.size() > static_cast<std::size_t>(small_layout) &&
      !serves_small_constants(rewriter, node)) {
    return is(node, "Transpose") ? refused("the weight is used as it is elsewhere") : not_mine();
  }
  if (rewriter.is_output(node.outputs[0])) return not_mine();
  auto folded = fold(rewriter, node, *data);
  if (!folded) return not_mine();
  rewriter.fold(index, std::move(*folded), laid_out(rewriter.value(input).name, node));
  return changed();
}

}  // namespace whence::simplify
