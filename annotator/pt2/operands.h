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

// Returns true if an input of a node is a keyword argument.
inline bool is_keyword(const Part& input) {
  constexpr std::int64_t keyword = 2;  // torch._export.serde.schema.ArgumentKind
  const auto kind = input.maybe("kind");
  return kind && !kind->is_null() && kind->integer() == keyword;
}

// Sets the node as the location in error messages.
inline void enter_node(Reading& reading, std::size_t number, const Part& node) {
  reading.entry = "node " + std::to_string(number);
  if (node.has("name") && !node.at("name").is_null()) reading.entry += " '" + node.at("name").text() + "'";
}

// Returns the number of leading operands that configure the context of a graph (no_grad, autocast), which ONNX ignores;
// nullopt for other operators.
inline std::optional<std::size_t> operands_of_context(std::string_view target) {
  if (target == "torch.ops.higher_order.wrap_with_set_grad_enabled") return 1;
  if (target == "torch.ops.higher_order.wrap_with_autocast") return 4;
  return std::nullopt;
}

// Returns the name of the value in a graph input or output.
inline std::string name_in(const Part& argument) {
  const auto [kind, content] = argument.alternative();
  return kind == "as_tensor" ? content.at("name").text() : content.at("as_name").text();
}

// Returns the names of an operator's results, in order.
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
