// The operands of an operator that takes graphs, in order: higher_order.cond(pred, true_graph, false_graph, [x]).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/pt2/part.h"

namespace whence::pt2 {

struct Operands {
  std::vector<Part> graphs;  // each with its inputs, nodes and outputs
  std::vector<Part> others;  // arguments, in order
};

inline Operands operands_of(const Part& node) {
  Operands operands;
  const Part inputs = node.at("inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Part argument = inputs[i].at("arg");
    const auto [kind, content] = argument.alternative();
    kind == "as_graph" ? operands.graphs.push_back(content.at("graph")) : operands.others.push_back(argument);
  }
  return operands;
}

// True if an input of a node is given by its name.
inline bool is_keyword(const Part& input) {
  constexpr std::int64_t keyword = 2;  // torch._export.serde.schema.ArgumentKind
  const auto kind = input.maybe("kind");
  return kind && !kind->is_null() && kind->integer() == keyword;
}

// Makes the graph's node of this number the place that errors name.
inline void enter_node(Reading& reading, std::size_t number, const Part& node) {
  reading.entry = "node " + std::to_string(number);
  if (node.has("name") && !node.at("name").is_null()) reading.entry += " '" + node.at("name").text() + "'";
}

// The number of operands that set up the context in which an operator runs a graph (no_grad, autocast), before the
// graph's own; ONNX ignores the context. nullopt for other operators.
inline std::optional<std::size_t> operands_of_context(std::string_view target) {
  if (target == "torch.ops.higher_order.wrap_with_set_grad_enabled") return 1;
  if (target == "torch.ops.higher_order.wrap_with_autocast") return 4;
  return std::nullopt;
}

// The name that a graph's input or output gives to a value.
inline std::string name_in(const Part& argument) {
  const auto [kind, content] = argument.alternative();
  return kind == "as_tensor" ? content.at("name").text() : content.at("as_name").text();
}

// The names of an operator's results, in order.
inline std::vector<std::string> names_in(const Part& outputs) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto [kind, content] = outputs[i].alternative();
    if (kind != "as_tensors") {
      names.push_back(name_in(outputs[i]));
      continue;
    }
    for (std::size_t each = 0; each < content.size(); ++each) names.push_back(content[each].at("name").text());
  }
  return names;
}

}  // namespace whence::pt2
