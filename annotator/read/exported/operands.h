// What an operator that takes graphs is given, in order: higher_order.cond(pred, true_graph, false_graph, [x]).
#pragma once

#include <string>
#include <vector>

#include "annotator/read/exported/part.h"

namespace whence {

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

// The name that a graph's input or output gives to a value.
inline std::string name_in(const Part& argument) {
  const auto [kind, content] = argument.alternative();
  return kind == "as_tensor" ? content.at("name").text() : content.at("as_name").text();
}

// Of an operator's results, in order.
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

}  // namespace whence
