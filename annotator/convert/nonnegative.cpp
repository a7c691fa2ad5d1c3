// Traces a value back to the values it is computed from; a few steps are enough for size arithmetic.
#include "annotator/convert/nonnegative.h"

#include <algorithm>
#include <unordered_map>

namespace whence::convert {

using graph::Graph;
using graph::GraphNode;
using graph::GraphValueId;

namespace {

// Bounds are limited to values far below the range of int64, so that sums and products of two do not overflow.
constexpr std::int64_t max_bound = std::int64_t{1} << 31;
using LowerBound = std::optional<std::int64_t>;  // nullopt: unknown

LowerBound bounded(std::int64_t least) { return std::clamp(least, -max_bound, max_bound); }

enum class Rule { zero, like_first, least_of_all, greatest_of_all, sum, difference, product, quotient, remainder };

const std::unordered_map<std::string_view, Rule>& rules() {
  static const std::unordered_map<std::string_view, Rule> rules{{"Size", Rule::zero},
                                                                {"Abs", Rule::zero},
                                                                {"Gather", Rule::like_first},
                                                                {"Slice", Rule::like_first},
                                                                {"Squeeze", Rule::like_first},
                                                                {"Reshape", Rule::like_first},
                                                                {"Unsqueeze", Rule::like_first},
                                                                {"Identity", Rule::like_first},
                                                                {"Add", Rule::sum},
                                                                {"Sub", Rule::difference},
                                                                {"Mul", Rule::product},
                                                                {"Div", Rule::quotient},
                                                                {"Concat", Rule::least_of_all},
                                                                {"Min", Rule::least_of_all},
                                                                {"Max", Rule::greatest_of_all},
                                                                {"Mod", Rule::remainder}};
  return rules;
}

// Returns the smallest of the sizes that a Shape node gives.
LowerBound smallest_size(const Graph& graph, const GraphNode& shape) {
  const auto& dims = graph.values[shape.inputs[0]].dims;
  if (!dims) return 0;
  const auto rank = static_cast<std::int64_t>(dims->size());
  const auto position = [&](const char* name, std::int64_t otherwise) {
    const std::int64_t at = shape.int_attribute(name, otherwise);
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  std::int64_t least = max_bound;
  for (std::int64_t i = position("start", 0); i < position("end", rank); ++i) {
    const Dim& dim = (*dims)[static_cast<std::size_t>(i)];
    std::int64_t size = dim.is_static() ? dim.size : 0;
    if (dim.dynamic && dim.symbol != none_id) {
      size = range_of(graph.symbols[dim.symbol]).min;
    }
    least = std::min(least, size);
  }
  return bounded(least);
}

LowerBound lower_bound_of(const Graph& graph, GraphValueId id, int steps);

LowerBound lower_bound_of_node(const Graph& graph, const GraphNode& node, Rule rule, int steps) {
  if (rule == Rule::zero) return 0;
  const LowerBound first = lower_bound_of(graph, node.inputs[0], steps);
  if (rule == Rule::like_first) return first;
  if (rule == Rule::least_of_all) {
    LowerBound all = first;
    for (const GraphValueId input : node.inputs) {
      const LowerBound one = lower_bound_of(graph, input, steps);
      all = all && one ? LowerBound(std::min(*all, *one)) : std::nullopt;
    }
    return all;
  }
  if (rule == Rule::greatest_of_all) {
    LowerBound all = first;
    for (const GraphValueId input : node.inputs) all = std::max(all, lower_bound_of(graph, input, steps));
    return all;
  }
  if (rule == Rule::difference) {  // the bound of a number minus a constant
    const auto numbers = graph.integers(node.inputs[1]);
    if (!first || !numbers || numbers->empty()) return std::nullopt;
    return bounded(*first - std::clamp(*std::ranges::max_element(*numbers), -max_bound, max_bound));
  }
  const LowerBound second = lower_bound_of(graph, node.inputs[1], steps);
  if (rule == Rule::remainder) return second && *second >= 0 ? LowerBound(0) : std::nullopt;  // has the divisor's sign
  if (!first || !second) return std::nullopt;
  if (rule == Rule::sum) return bounded(*first + *second);
  if (*first < 0 || *second < 0) return std::nullopt;
  return rule == Rule::product ? bounded(*first * *second) : 0;
}

LowerBound lower_bound_of(const Graph& graph, GraphValueId id, int steps) {
  if (graph.constant(id) != nullptr) {
    const auto numbers = graph.integers(id);
    if (!numbers || numbers->empty()) return std::nullopt;
    return bounded(*std::ranges::min_element(*numbers));
  }
  const std::int32_t producer = graph.values[id].producer;
  if (producer < 0 || steps == 0) return std::nullopt;
  const GraphNode& node = graph.nodes[producer];
  if (node.op_type == "Shape") return smallest_size(graph, node);
  const auto rule = rules().find(node.op_type);
  return rule == rules().end() ? std::nullopt : lower_bound_of_node(graph, node, rule->second, steps - 1);
}

}  // namespace

bool never_negative(Ctx& c, Val value) {
  constexpr int max_steps = 8;
  const LowerBound found = lower_bound_of(c.graph(), value.id, max_steps);
  return found && *found >= 0;
}

}  // namespace whence::convert
