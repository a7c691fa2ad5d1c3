// Operators that take graphs: contexts (no_grad, autocast) are nothing to ONNX and their graph goes in place; `cond`
// becomes prim::If.
#include <algorithm>
#include <array>

#include "annotator/read/exported/graph.h"

namespace whence {
namespace {

struct Operands {
  std::vector<Part> graphs;  // {"name", "graph"}
  std::vector<Part> others;  // arguments, in order
};

Operands operands_of(const Part& node) {
  Operands operands;
  const Part inputs = node.at("inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Part argument = inputs[i].at("arg");
    const auto [kind, content] = argument.alternative();
    (kind == "as_graph" ? operands.graphs : operands.others).push_back(kind == "as_graph" ? content : argument);
  }
  return operands;
}

// The name that a graph's input or output gives to a value.
const std::string& name_in(const Part& argument) {
  const auto [kind, content] = argument.alternative();
  return kind == "as_tensor" ? content.at("name").text() : content.at("as_name").text();
}

// Of an operator's results, in order.
std::vector<std::string> names_in(const Part& outputs) {
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

}  // namespace

bool ExportedGraph::read_higher_order(const std::string& name, const Part& graph, const Part& node, Block& block) {
  // Operands that set the context up come before the graph's own.
  struct Context {
    std::string_view name;
    std::size_t own;
  };
  constexpr std::array<Context, 2> contexts = {{{"wrap_with_set_grad_enabled", 1}, {"wrap_with_autocast", 4}}};
  const auto context = std::ranges::find(contexts, name, &Context::name);
  if (context != contexts.end()) {
    const Operands operands = operands_of(node);
    if (operands.graphs.size() != 1 || operands.others.size() < context->own) reading_.corrupt("an operand is missing");
    std::vector<Argument> given;
    for (std::size_t i = context->own; i < operands.others.size(); ++i) given.push_back(argument(operands.others[i]));
    inline_graph(operands.graphs.front().at("graph"), given, node.at("outputs"), block);
    return true;
  }
  if (name != "cond") return false;
  read_cond(graph, node, block);
  return true;
}

void ExportedGraph::inline_graph(const Part& inner, const std::vector<Argument>& operands, const Part& outputs,
                                 Block& block) {
  const Names around = names_;
  const Part inputs = inner.at("inputs");
  if (inputs.size() != operands.size()) reading_.corrupt("a graph has other inputs than it is given");
  names_.clear();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto* value = operands[i].as<ValueRef>();
    if (value == nullptr) unsupported("a graph that is given a number", "write the number into the model");
    bind(name_in(inputs[i]), value->id);
  }
  read_nodes(inner, block);
  std::vector<Argument> results;
  const Part made = inner.at("outputs");
  for (std::size_t i = 0; i < made.size(); ++i) results.push_back(argument(made[i]));
  names_ = around;
  const std::vector<std::string> names = names_in(outputs);
  for (std::size_t i = 0; i < names.size() && i < results.size(); ++i) {
    const auto* value = results[i].as<ValueRef>();
    value != nullptr ? bind(names[i], value->id) : unsupported("a graph that returns a number", "return a tensor");
  }
}

void ExportedGraph::read_cond(const Part& graph, const Part& part, Block& block) {
  const Operands operands = operands_of(part);
  if (operands.graphs.size() != 2 || operands.others.empty()) reading_.corrupt("cond without its two branches");
  Node node;
  node.origin = origin_of(part);
  node.target = "prim::If";
  node.arguments.push_back({"condition", argument(operands.others.front())});
  std::vector<Argument> given;
  for (std::size_t i = 1; i < operands.others.size(); ++i) {
    const Argument operand = argument(operands.others[i]);
    if (const auto* list = operand.as<ArgumentList>()) {
      given.insert(given.end(), list->begin(), list->end());
    } else {
      given.push_back(operand);
    }
  }
  const ScopeId around = std::exchange(scope_, node.origin.scope);
  for (const Part& branch : operands.graphs) read_branch(branch.at("graph"), given, node);
  scope_ = around;
  for (const std::string& name : names_in(part.at("outputs"))) {
    node.outputs.push_back(declare(graph, name, ValueSource::node, node.origin.op));
  }
  block.nodes.push_back(std::move(node));
}

void ExportedGraph::read_branch(const Part& inner, const std::vector<Argument>& operands, Node& node) {
  const Names around = std::exchange(names_, {});
  const Part inputs = inner.at("inputs");
  if (inputs.size() != operands.size()) reading_.corrupt("a branch has other inputs than it is given");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto* value = operands[i].as<ValueRef>();
    if (value == nullptr) unsupported("a branch that is given a number", "write the number into the model");
    bind(name_in(inputs[i]), value->id);
  }
  Block& block = node.blocks.emplace_back();
  read_nodes(inner, block);
  const Part made = inner.at("outputs");
  for (std::size_t i = 0; i < made.size(); ++i) block.outputs.push_back(argument(made[i]));
  names_ = around;
}

}  // namespace whence
