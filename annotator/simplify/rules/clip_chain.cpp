// x -> Max(a) -> Min(b)                                before, with constant scalars a and b
// x -> Clip(a, b)                                      after; also for Min before Max
// Condition: a <= b, otherwise the two orders differ. Origins: joined; the first node stays for its other users.
#include "annotator/simplify/operands.h"
#include "annotator/simplify/rule.h"

namespace whence::simplify {

using graph::GraphNode;

Outcome clip_chain(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& outer = rewriter.node(index);
  const bool smallest = is(outer, "Min");
  if (!smallest && !is(outer, "Max")) return no_match();
  const auto last = with_number(rewriter, outer);
  const GraphNode* inner = last ? rewriter.producer(last->x, smallest ? "Max" : "Min") : nullptr;
  const auto first = inner != nullptr ? with_number(rewriter, *inner) : std::nullopt;
  if (!first) return no_match();
  const WithNumber &low = smallest ? *first : *last, &high = smallest ? *last : *first;
  if (!(low.number <= high.number)) return refused("the bounds are not in order");
  rewriter.replace_with(outer.outputs[0], make_node("Clip", {first->x, low.number_value, high.number_value},
                                                    joined(inner->origin, outer.origin)));
  return changed();
}

}  // namespace whence::simplify
