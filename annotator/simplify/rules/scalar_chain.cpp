// x -> Mul(c) -> Mul(d)                                before; either may be a Div
// x -> Mul(c * d)                                      after
// Condition: one of the factors is a power of two, so that every result is the same to the last bit; nothing else reads
// x * c. Origins: joined.
#include <cmath>

#include "annotator/program/tensor_values.h"
#include "annotator/simplify/rule.h"

namespace whence::simplify {

using graph::GraphNode;
using graph::no_value;

namespace {

struct Scaling {
  graph::GraphValueId x = no_value;
  double factor = 0;
  bool exact = false;  // a power of two
};

bool power_of_two(double number) {
  int exponent = 0;
  return std::abs(std::frexp(number, &exponent)) == 0.5;
}

std::optional<Scaling> scaling(const Rewriter& r, const GraphNode& node) {
  const bool divides = is(node, "Div");
  if (!divides && !is(node, "Mul")) return std::nullopt;
  for (const std::size_t at : {std::size_t{1}, std::size_t{0}}) {
    if (at == 0 && divides) break;
    const TensorData* constant = r.constant(node.inputs[at]);
    if (constant == nullptr || !constant->shape.empty()) continue;
    if (constant->dtype != DType::float32 && constant->dtype != DType::float64) continue;
    const double number = *program::single_number(*constant);
    const bool exact = power_of_two(number);
    if (divides && !exact) return std::nullopt;  // 1 / c would round
    return Scaling{node.inputs[1 - at], divides ? 1 / number : number, exact};
  }
  return std::nullopt;
}

}  // namespace

Outcome scalar_chain(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& outer = rewriter.node(index);
  const auto second = scaling(rewriter, outer);
  if (!second) return no_match();
  const GraphNode* inner = rewriter.producer(second->x);
  if (inner == nullptr) return no_match();
  const auto first = scaling(rewriter, *inner);
  if (!first) return no_match();
  if (!first->exact && !second->exact) return refused("the product of the factors would round differently");
  if (rewriter.use_count(second->x) != 1) return refused("the first product is used elsewhere");

  const graph::GraphValueId result = outer.outputs[0];
  const DType dtype = rewriter.value(result).dtype;
  if (dtype != DType::float32 && dtype != DType::float64) return no_match();
  const double product = first->factor * second->factor;
  const double stored = dtype == DType::float32 ? static_cast<double>(static_cast<float>(product)) : product;
  const double smallest = dtype == DType::float32 ? 0x1p-126 : 0x1p-1022;
  if (stored != product || std::abs(product) < smallest) return refused("the product of the factors is not exact");

  GraphNode merged = make_node("Mul", {first->x}, joined(inner->origin, outer.origin));
  merged.inputs.push_back(rewriter.constant(program::number_scalar(product, dtype), merged.origin));
  rewriter.replace_with(result, std::move(merged));
  return changed();
}

}  // namespace whence::simplify
