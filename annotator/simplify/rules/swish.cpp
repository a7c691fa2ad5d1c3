// x -> Sigmoid -> Mul with x                           before
// x -> Swish                                           after
// and
// x -> Mul(a) -> Sigmoid -> Mul with x                 before, with a constant a
// x -> Swish(alpha = a)                                after
// and
// a -> Swish -> Mul with b                             before
// a, b -> SwiGLU                                       after
// Condition: the export may use the operator; a and b of SwiGLU have the same shape. Origins: joined; the nodes before
// the last Mul stay for their other users.
#include "annotator/simplify/operands.h"
#include "annotator/simplify/rule.h"
#include "annotator/simplify/sizes.h"

namespace whence::simplify {

using graph::GraphNode;
using graph::GraphValueId;

namespace {

// Attributes have 32 bits: a number that does not fit would change the result of a float64 model.
bool fits_attribute(const Rewriter& r, GraphValueId x, double number) {
  return r.value(x).dtype != DType::float64 || static_cast<double>(static_cast<float>(number)) == number;
}

float alpha_of(const GraphNode& swish) {
  const graph::Attribute* alpha = swish.find("alpha");
  return alpha == nullptr ? 1.0F : std::get<float>(alpha->value);
}

GraphNode with_alpha(GraphNode node, float alpha) {
  if (alpha != 1.0F) node.attributes.push_back({"alpha", alpha});
  return node;
}

// Matches x * sigmoid(alpha * x); `gate` is one operand of `product`.
std::optional<GraphNode> as_swish(const Rewriter& r, const GraphNode& product, const GraphNode& gate, GraphValueId x) {
  const GraphValueId gate_input = gate.inputs[0];
  origin::NodeOrigin origin = joined(gate.origin, product.origin);
  if (gate_input == x) return make_node("Swish", {x}, std::move(origin));
  const GraphNode* scaled = r.producer(gate_input, "Mul");
  const auto scale = scaled != nullptr ? with_number(r, *scaled) : std::nullopt;
  if (!scale || scale->x != x || !fits_attribute(r, x, scale->number)) return std::nullopt;
  return with_alpha(make_node("Swish", {x}, joined(scaled->origin, origin)), static_cast<float>(scale->number));
}

bool same_shape(const Rewriter& r, GraphValueId a, GraphValueId b) {
  const auto &first = r.value(a).dims, &second = r.value(b).dims;
  return first && second && std::ranges::equal(*first, *second, same_size);
}

}  // namespace

Outcome swish(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& product = rewriter.node(index);
  if (!is(product, "Mul") || !rewriter.writes("Swish")) return no_match();
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const GraphNode* gate = rewriter.producer(product.inputs[side], "Sigmoid");
    if (gate == nullptr) continue;
    if (auto node = as_swish(rewriter, product, *gate, product.inputs[1 - side])) {
      rewriter.replace_with(product.outputs[0], std::move(*node));
      return changed();
    }
  }
  return no_match();
}

Outcome swiglu(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& product = rewriter.node(index);
  if (!is(product, "Mul") || !rewriter.writes("SwiGLU")) return no_match();
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const GraphNode* gate = rewriter.producer(product.inputs[side], "Swish");
    if (gate == nullptr) continue;
    const GraphValueId other = product.inputs[1 - side];
    if (!same_shape(rewriter, gate->inputs[0], other)) return refused("the gate and the gated tensor differ in shape");
    GraphNode node = make_node("SwiGLU", {gate->inputs[0], other}, joined(gate->origin, product.origin));
    rewriter.replace_with(product.outputs[0], with_alpha(std::move(node), alpha_of(*gate)));
    return changed();
  }
  return no_match();
}

}  // namespace whence::simplify
