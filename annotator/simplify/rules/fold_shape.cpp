// x -> Shape -> Gather(i)                              before; also only Shape, and Shape -> Slice
// constant                                             after
// Condition: the selected sizes are static; other sizes may be dynamic. Origins: the constant has the origin of the
// node it replaces.
#include <algorithm>

#include "annotator/program/tensor_values.h"
#include "annotator/simplify/rule.h"

namespace whence::simplify {

using graph::GraphNode;
using graph::no_value;

namespace {

// Returns the sizes that a Shape node outputs, dynamic ones included.
std::optional<std::vector<Dim>> sizes(const Rewriter& r, const GraphNode& shape) {
  const auto& dims = r.value(shape.inputs[0]).dims;
  if (!dims) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(dims->size());
  const auto clamp = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const std::int64_t start = clamp(shape.int_attribute("start", 0));
  const std::int64_t end = clamp(shape.int_attribute("end", rank));
  if (start >= end) return std::vector<Dim>{};
  return std::vector<Dim>(dims->begin() + start, dims->begin() + end);
}

std::optional<std::vector<std::int64_t>> gathered(const Rewriter& r, const GraphNode& node) {
  const GraphNode* shape = r.producer(node.inputs[0], "Shape");
  const auto indices = r.integers(node.inputs[1]);
  if (shape == nullptr || !indices) return std::nullopt;
  const auto all = sizes(r, *shape);
  if (!all) return std::nullopt;
  const auto count = static_cast<std::int64_t>(all->size());
  std::vector<std::int64_t> found;
  for (std::int64_t at : *indices) {
    if (at < 0) at += count;
    if (at < 0 || at >= count || !(*all)[at].is_static()) return std::nullopt;
    found.push_back((*all)[at].size);
  }
  return found;
}

std::optional<std::vector<std::int64_t>> sliced(const Rewriter& r, const GraphNode& node) {
  const GraphNode* shape = r.producer(node.inputs[0], "Shape");
  const auto starts = r.integers(node.inputs[1]);
  const auto ends = r.integers(node.inputs[2]);
  if (shape == nullptr || !starts || !ends || starts->size() != 1) return std::nullopt;
  if (node.inputs.size() > 4 && node.inputs[4] != no_value &&
      r.integers(node.inputs[4]) != std::vector{std::int64_t{1}}) {
    return std::nullopt;
  }
  const auto all = sizes(r, *shape);
  if (!all) return std::nullopt;
  const auto count = static_cast<std::int64_t>(all->size());
  const auto clamp = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + count : at, 0, count); };
  std::vector<std::int64_t> found;
  for (std::int64_t at = clamp(starts->front()); at < clamp(ends->front()); ++at) {
    if (!(*all)[at].is_static()) return std::nullopt;
    found.push_back((*all)[at].size);
  }
  return found;
}

std::optional<std::vector<std::int64_t>> static_shape(const Rewriter& r, const GraphNode& node) {
  const auto all = sizes(r, node);
  if (!all || !std::ranges::all_of(*all, [](const Dim& dim) { return dim.is_static(); })) return std::nullopt;
  std::vector<std::int64_t> found;
  for (const Dim& dim : *all) found.push_back(dim.size);
  return found;
}

}  // namespace

Outcome fold_shape(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& node = rewriter.node(index);
  std::optional<std::vector<std::int64_t>> found;
  bool scalar = false;
  if (is(node, "Shape")) {
    found = static_shape(rewriter, node);
  } else if (is(node, "Gather")) {
    found = gathered(rewriter, node);
    scalar = found && rewriter.constant(node.inputs[1])->shape.empty();
  } else if (is(node, "Slice")) {
    found = sliced(rewriter, node);
  }
  if (!found) return no_match();
  if (rewriter.is_output(node.outputs[0])) return refused("a graph output needs a node that computes it");
  rewriter.fold(index,
                scalar ? program::integer_scalar(found->front(), DType::int64) : program::integer_vector(*found));
  return changed();
}

}  // namespace whence::simplify
