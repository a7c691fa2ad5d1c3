#include "annotator/comparison/pool_windows.h"

#include <algorithm>

#include "annotator/comparison/numbers_of_node.h"

namespace whence::comparison {

namespace {

using Integers = std::vector<std::int64_t>;

// Returns the number of windows by axis; {} if it is unknown.
Integers counts_of(const graph::Graph& graph, const graph::GraphNode& node, const Integers& pads, bool rounds_up) {
  const Integers kernel = integers_attribute(node, "kernel_shape", {});
  const std::size_t axes = kernel.size();
  const Integers steps = integers_attribute(node, "strides", Integers(axes, 1));
  const Integers spreads = integers_attribute(node, "dilations", Integers(axes, 1));
  const auto& dims = graph.values[static_cast<std::size_t>(node.inputs[0])].dims;
  const bool is_whole = dims && dims->size() == axes + 2 && steps.size() == axes && spreads.size() == axes;
  if (!is_whole || pads.size() != 2 * axes) return {};
  Integers counts;
  for (std::size_t i = 0; i < axes; ++i) {
    const Dim& size = (*dims)[i + 2];
    if (!size.is_static() || steps[i] < 1) return {};
    const std::int64_t room = size.size + pads[i] + pads[axes + i] - (kernel[i] - 1) * spreads[i] - 1;
    if (room < 0) return {};
    std::int64_t last = (rounds_up ? room + steps[i] - 1 : room) / steps[i];
    if (rounds_up && last * steps[i] >= size.size + pads[i]) --last;  // a window of padding alone
    counts.push_back(last + 1);
  }
  return counts;
}

}  // namespace

std::optional<bool> has_windows_of(const graph::Graph& graph, const graph::GraphNode& node, Integers pads,
                                   bool rounds_up) {
  const std::size_t axes = integers_attribute(node, "kernel_shape", {}).size();
  const Integers expected = integers_attribute(node, "pads", Integers(2 * axes, 0));
  if (pads.empty()) pads.assign(2 * axes, 0);
  const bool is_comparable =
      axes > 0 && pads.size() == 2 * axes && expected.size() == 2 * axes && node.find("auto_pad") == nullptr;
  if (!is_comparable) return std::nullopt;
  const Integers own = counts_of(graph, node, pads, rounds_up);
  const Integers theirs = counts_of(graph, node, expected, node.int_attribute("ceil_mode", 0) != 0);
  if (own.empty() || theirs.empty()) return std::nullopt;
  return own == theirs && std::equal(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes), expected.begin());
}

}  // namespace whence::comparison
