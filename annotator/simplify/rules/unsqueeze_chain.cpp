// x -> Unsqueeze(a) -> Unsqueeze(b)                    before; also with Squeeze, and with one of each
// x -> Unsqueeze(a and b, as axes of the result)       after; the first stays for its other users
// A Squeeze and an Unsqueeze that cancel each other leave x itself. Condition: the rank of x is known, the axes are
// constant. Origins: joined.
#include <algorithm>
#include <set>

#include "annotator/program/tensor_values.h"
#include "annotator/simplify/rule.h"

namespace whence::simplify {

using graph::GraphNode;

namespace {

constexpr std::int64_t added = -1;

// For each axis of the result: the axis of x it comes from, or `added`.
using Layout = std::vector<std::int64_t>;

std::optional<std::vector<std::int64_t>> axes_of(const Rewriter& r, const GraphNode& node, std::size_t rank) {
  if (node.inputs.size() < 2) return std::nullopt;  // a Squeeze of all axes of size 1
  auto axes = r.integers(node.inputs[1]);
  if (!axes) return std::nullopt;
  const auto bound = static_cast<std::int64_t>(rank);
  for (std::int64_t& axis : *axes) {
    if (axis < 0) axis += bound;
    if (axis < 0 || axis >= bound) return std::nullopt;
  }
  return axes;
}

bool apply(const Rewriter& r, const GraphNode& node, Layout& layout) {
  if (is(node, "Unsqueeze")) {
    const auto arity = r.constant(node.inputs[1]);
    if (arity == nullptr) return false;
    const std::size_t rank = layout.size() + static_cast<std::size_t>(arity->element_count());
    auto axes = axes_of(r, node, rank);
    if (!axes) return false;
    std::ranges::sort(*axes);
    for (const std::int64_t axis : *axes) layout.insert(layout.begin() + axis, added);
    return true;
  }
  const auto axes = axes_of(r, node, layout.size());
  if (!axes) return false;
  Layout kept;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (std::ranges::find(*axes, static_cast<std::int64_t>(i)) == axes->end()) kept.push_back(layout[i]);
  }
  layout = std::move(kept);
  return true;
}

// Returns true if the result has x's axes in order, with an added axis in place of each squeezed one.
bool restores(const Layout& layout, std::size_t rank) {
  if (layout.size() != rank) return false;
  const std::set<std::int64_t> kept(layout.begin(), layout.end());
  for (std::size_t i = 0; i < rank; ++i) {
    const auto axis = static_cast<std::int64_t>(i);
    if (layout[i] != axis && (layout[i] != added || kept.contains(axis))) return false;
  }
  return true;
}

}  // namespace

Outcome unsqueeze_chain(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& outer = rewriter.node(index);
  const auto reshapes_ones = [](const GraphNode& node) { return is(node, "Unsqueeze") || is(node, "Squeeze"); };
  if (!reshapes_ones(outer)) return no_match();
  const GraphNode* inner = rewriter.producer(outer.inputs[0]);
  if (inner == nullptr || !reshapes_ones(*inner)) return no_match();
  const graph::GraphValueId x = inner->inputs[0];
  const auto& dims = rewriter.value(x).dims;
  if (!dims) return refused("the rank is unknown");

  Layout layout(dims->size());
  for (std::size_t i = 0; i < layout.size(); ++i) layout[i] = static_cast<std::int64_t>(i);
  if (!apply(rewriter, *inner, layout) || !apply(rewriter, outer, layout)) return refused("the axes are not constant");

  const graph::GraphValueId result = outer.outputs[0];
  if (restores(layout, dims->size())) {
    if (!rewriter.can_replace(result, x)) return refused("a graph output needs a node that computes it");
    rewriter.replace(result, x);
    return changed();
  }
  std::vector<std::int64_t> new_axes, lost_axes;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (layout[i] == added) new_axes.push_back(static_cast<std::int64_t>(i));
  }
  for (std::size_t i = 0; i < dims->size(); ++i) {
    const auto axis = static_cast<std::int64_t>(i);
    if (std::ranges::find(layout, axis) == layout.end()) lost_axes.push_back(axis);
  }
  if (!new_axes.empty() && !lost_axes.empty()) return refused("axes are both added and dropped");

  GraphNode merged = make_node(lost_axes.empty() ? "Unsqueeze" : "Squeeze", {x}, joined(inner->origin, outer.origin));
  merged.inputs.push_back(
      rewriter.constant(program::integer_vector(lost_axes.empty() ? new_axes : lost_axes), merged.origin));
  rewriter.replace_with(result, std::move(merged));
  return changed();
}

}  // namespace whence::simplify
