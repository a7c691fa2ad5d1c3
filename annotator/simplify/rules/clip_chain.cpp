// x -> Max(a) -> Min(b)                                before, of one number each
// x -> Clip(a, b)                                      after; likewise Min before Max
// Condition: a <= b, else the two orders differ. Origins: joined; the first stays for its other users.
#include "annotator/program/tensor_values.h"
#include "annotator/simplify/rule.h"

namespace whence::simplify {

using graph::GraphNode;

namespace {

// The operand that is one number of rank 0, and the other one; nullopt when there is none.
struct Bounded {
  graph::GraphValueId x, bound;
  double number;
};

std::optional<Bounded> bounded(const Rewriter& r, const GraphNode& node) {
  if (node.inputs.size() != 2) return std::nullopt;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const TensorData* data = r.constant(node.inputs[side]);
    const auto number = data != nullptr && data->shape.empty() ? program::single_number(*data) : std::nullopt;
    if (number) return Bounded{node.inputs[1 - side], node.inputs[side], *number};
  }
  return std::nullopt;
}

}  // namespace

Outcome clip_chain(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& outer = rewriter.node(index);
  const bool smallest = is(outer, "Min");
  if (!smallest && !is(outer, "Max")) return not_mine();
  const auto last = bounded(rewriter, outer);
  const GraphNode* inner = last ? rewriter.producer(last->x, smallest ? "Max" : "Min") : nullptr;
  const auto first = inner != nullptr ? bounded(rewriter, *inner) : std::nullopt;
  if (!first) return not_mine();
  const Bounded &low = smallest ? *first : *last, &high = smallest ? *last : *first;
  if (!(low.number <= high.number)) return refused("the bounds are not in order");
  rewriter.put_in_place_of(outer.outputs[0],
                           make_node("Clip", {first->x, low.bound, high.bound}, joined(inner->origin, outer.origin)));
  return changed();
}

}  // namespace whence::simplify
