// x -> Reshape(s) -> Reshape(t)                        before; the first may be a Flatten, Squeeze or Unsqueeze
// x -> Reshape(t)                                      after; the first stays for its other users
// and
// x -> Reshape(s) -> Unsqueeze(a)                      before; or Squeeze
// x -> Reshape(s with a)                               after; at most one size of the result may be dynamic
// Condition: t copies no size of the intermediate tensor (0 in t), or only one, which becomes -1. Origins: joined.
#include <algorithm>
#include <utility>

#include "annotator/program/tensor_values.h"
#include "annotator/simplify/rule.h"

namespace whence::simplify {

using graph::GraphNode;
using graph::GraphValueId;

namespace {

bool only_reshapes(const GraphNode& node) { return is(node, operators::reshapes); }

// Returns `target` with copied sizes replaced with those of `dims`. One dynamic size may become -1, because the number
// of elements determines it; nullopt if several are dynamic.
std::optional<std::vector<std::int64_t>> without_copies(std::vector<std::int64_t> target,
                                                        const std::optional<std::vector<Dim>>& dims) {
  bool open = std::ranges::find(target, -1) != target.end();
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] != 0) continue;
    if (!dims || i >= dims->size()) return std::nullopt;
    if (!(*dims)[i].is_static() && std::exchange(open, true)) return std::nullopt;
    target[i] = (*dims)[i].is_static() ? (*dims)[i].size : -1;
  }
  // Reshape cannot resolve a -1 if another size is 0.
  if (open && std::ranges::find(target, 0) != target.end()) return std::nullopt;
  return target;
}

// Returns true for a computed shape whose constant pieces copy no size.
bool computed_without_copies(const Rewriter& r, GraphValueId shape) {
  const GraphNode* concat = r.producer(shape, "Concat");
  if (concat == nullptr) return false;
  return std::ranges::all_of(concat->inputs, [&](GraphValueId piece) {
    const auto numbers = r.integers(piece);
    return numbers ? std::ranges::find(*numbers, 0) == numbers->end() : r.constant(piece) == nullptr;
  });
}

Outcome skip_inner(Rewriter& r, std::int32_t index, const GraphNode& outer, const GraphNode& inner) {
  if (outer.int_attribute("allowzero", 0) == 0) {
    const auto target = r.integers(outer.inputs[1]);
    if (!target && !computed_without_copies(r, outer.inputs[1])) return refused("the shape may copy a size");
    if (target) {
      const auto plain = without_copies(*target, r.value(outer.inputs[0]).dims);
      if (!plain) return refused("the shape copies a dynamic size");
      if (*plain != *target) r.set_input(index, 1, r.constant(program::integer_vector(*plain), outer.origin));
    }
  }
  // References to nodes are still valid, because only a constant was added.
  const origin::NodeOrigin origin = joined(inner.origin, outer.origin);
  const GraphValueId x = inner.inputs[0];
  r.set_origin(index, origin);
  r.set_input(index, 0, x);
  return changed();
}

Outcome absorb_outer(Rewriter& r, const GraphNode& outer, const GraphNode& inner) {
  const GraphValueId result = outer.outputs[0];
  if (r.use_count(outer.inputs[0]) != 1) return refused("the reshaped tensor is used elsewhere");
  if (!r.value(result).dims) return refused("the sizes of the result are unknown");
  std::vector<std::int64_t> target;
  int open = 0;
  bool empty = false;
  for (const Dim& dim : *r.value(result).dims) {
    target.push_back(dim.is_static() ? dim.size : -1);
    if (!dim.is_static()) ++open;
    if (dim.is_static() && dim.size == 0) empty = true;
  }
  if (open > 1 || empty) return refused("more than one size of the result is dynamic");
  GraphNode merged = make_node("Reshape", {inner.inputs[0]}, joined(inner.origin, outer.origin));
  merged.inputs.push_back(r.constant(program::integer_vector(target), merged.origin));
  r.replace_with(result, std::move(merged));
  return changed();
}

}  // namespace

Outcome reshape_chain(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& outer = rewriter.node(index);
  if (!only_reshapes(outer)) return no_match();
  const GraphNode* inner = rewriter.producer(outer.inputs[0]);
  if (inner == nullptr || !only_reshapes(*inner)) return no_match();
  if (is(outer, "Reshape")) return skip_inner(rewriter, index, outer, *inner);
  if (is(*inner, "Reshape") && !is(outer, "Flatten")) return absorb_outer(rewriter, outer, *inner);
  return no_match();
}

}  // namespace whence::simplify
