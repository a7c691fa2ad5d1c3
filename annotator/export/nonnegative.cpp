// Walks from a value towards what it is computed of; a few steps are enough for size arithmetic.
#include "annotator/export/nonnegative.h"

#include <algorithm>
#include <unordered_map>

namespace whence {
namespace {

enum class Rule { always, like_first, like_all, like_second };

const std::unordered_map<std::string_view, Rule>& rules() {
  static const std::unordered_map<std::string_view, Rule> rules{
      {"Shape", Rule::always},         {"Size", Rule::always},        {"Abs", Rule::always},
      {"Gather", Rule::like_first},    {"Slice", Rule::like_first},   {"Squeeze", Rule::like_first},
      {"Unsqueeze", Rule::like_first}, {"Reshape", Rule::like_first}, {"Identity", Rule::like_first},
      {"Add", Rule::like_all},         {"Mul", Rule::like_all},       {"Div", Rule::like_all},
      {"Concat", Rule::like_all},      {"Mod", Rule::like_second}};
  return rules;
}

bool shown(const Graph& graph, GraphValueId id, int steps) {
  if (graph.constant(id) != nullptr) {
    const auto numbers = graph.integers(id);
    return numbers && std::all_of(numbers->begin(), numbers->end(), [](std::int64_t number) { return number >= 0; });
  }
  const std::int32_t producer = graph.values[id].producer;
  if (producer < 0 || steps == 0) return false;
  const GraphNode& node = graph.nodes[producer];
  const auto rule = rules().find(node.op_type);
  if (rule == rules().end()) return false;
  const auto input = [&](GraphValueId of) { return shown(graph, of, steps - 1); };
  switch (rule->second) {
    case Rule::always:
      return true;
    case Rule::like_first:
      return input(node.inputs[0]);
    case Rule::like_second:
      return input(node.inputs[1]);
    case Rule::like_all:
      return std::all_of(node.inputs.begin(), node.inputs.end(), input);
  }
  return false;
}

}  // namespace

bool never_negative(Ctx& c, Val value) {
  constexpr int most_steps = 8;
  return shown(c.graph(), value.id, most_steps);
}

}  // namespace whence
