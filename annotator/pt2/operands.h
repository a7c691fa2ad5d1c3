// The operands of an operator that takes graphs, in order: higher_order.cond(pred, true_graph, false_graph, [x]).
#pragma once

#include <algorithm>
#include <array>
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

// Returns true if an input of a node is a keyword argument.
inline bool is_keyword(const Part& input) {
  constexpr std::int64_t keyword = 2;  // torch._export.serde.schema.ArgumentKind
  const auto kind = input.maybe("kind");
  return kind && !kind->is_null() && kind->integer() == keyword;
}

// Leaves out keyword arguments: they are options of the operator, which no graph reads.
inline Operands operands_of(const Part& node) {
  Operands operands;
  const Part inputs = node.at("inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (is_keyword(inputs[i])) continue;
    const Part argument = inputs[i].at("arg");
    const auto [kind, content] = argument.alternative();
    kind == "as_graph" ? operands.graphs.push_back(content.at("graph")) : operands.others.push_back(argument);
  }
  return operands;
}

// Sets the node as the location in error messages.
inline void enter_node(Reading& reading, std::size_t number, const Part& node) {
  reading.entry = "node " + std::to_string(number);
  if (node.has("name") && !node.at("name").is_null()) reading.entry += " '" + node.at("name").text() + "'";
}

// Returns the number of operands before those of the graph, for an operator whose results are the results of its graph:
// a context (no_grad, autocast), hints for a compiler, or a call of a region; nullopt for other operators.
inline std::optional<std::size_t> operands_before_call(std::string_view operator_name) {
  struct Row {
    std::string_view name;
    std::size_t operands;
  };
  constexpr std::array<Row, 7> rows = {{{"wrap_with_set_grad_enabled", 1},  // enabled
                                        {"wrap_with_autocast", 4},          // device, dtype, enabled, cache
                                        {"invoke_subgraph", 1},             // identifier of the region
                                        {"tag_activation_checkpoint", 0},
                                        {"hints_wrapper", 0},
                                        {"invoke_quant", 0},
                                        {"foreach_map", 0}}};
  const auto row = std::ranges::find(rows, operator_name, &Row::name);
  return row == rows.end() ? std::nullopt : std::optional(row->operands);
}

// Returns what to write instead of an operator that is not supported.
inline std::string replacement_of(std::string_view operator_name) {
  struct Row {
    std::string_view name, replacement;
  };
  constexpr std::array<Row, 5> rows = {{
      {"associative_scan",
       "write it as a loop over the axis (torch._higher_order_ops.scan), or with an operator like torch.cumsum"},
      {"out_dtype", "convert the operands to the wider dtype and call the operator directly"},
      {"strict_mode", "call the function directly"},
      {"flex_attention", "call torch.nn.functional.scaled_dot_product_attention, with score_mod as attn_mask"},
      {"with_effects", "export the model without printing and operators registered as effectful"},
  }};
  const auto row = std::ranges::find(rows, operator_name, &Row::name);
  return row == rows.end() ? "write the model without it, or with torch.cond, while_loop or scan"
                           : std::string(row->replacement);
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
