// Operators that take graphs. The graph of a context (no_grad, autocast) is inlined, because ONNX has no such contexts;
// `cond` becomes prim::If. loops.cpp has `while_loop` and `scan`.
#include <utility>

#include "annotator/pt2/graph.h"
#include "annotator/pt2/operands.h"

namespace whence::pt2 {

bool ExportedGraph::read_higher_order(const std::string& name, const Part& graph, const Part& node, Block& block) {
  if (const auto own = operands_of_context(node.at("target").view())) {
    const Operands operands = operands_of(node);
    if (operands.graphs.size() != 1 || operands.others.size() < *own) reading_.corrupt("an operand is missing");
    std::vector<Argument> given;
    for (std::size_t i = *own; i < operands.others.size(); ++i) given.push_back(argument(operands.others[i]));
    inline_graph(operands.graphs.front(), given, node.at("outputs"), block);
    return true;
  }
  if (name == "cond") return read_cond(graph, node, block), true;
  if (name == "while_loop") return read_while_loop(graph, node, block), true;
  if (name == "scan") return read_scan(graph, node, block), true;
  if (name.starts_with("auto_functionalized")) return read_auto_functionalized(graph, node, block), true;
  return false;
}

void ExportedGraph::inline_graph(const Part& inner, const std::vector<Argument>& operands, const Part& outputs,
                                 Block& block) {
  const std::vector<Argument> results = read_body(inner, operands, block);
  const std::vector<std::string> names = names_in(outputs);
  for (std::size_t i = 0; i < names.size() && i < results.size(); ++i) {
    const auto* value = results[i].as<ValueRef>();
    value != nullptr ? bind(names[i], value->id) : unsupported("a number as the result of a graph", "return a tensor");
  }
}

// A nested graph has its own namespace.
std::vector<Argument> ExportedGraph::read_body(const Part& inner, const std::vector<Argument>& arguments,
                                               Block& block) {
  const Names around = std::exchange(names_, {});
  const Part inputs = inner.at("inputs");
  if (inputs.size() != arguments.size()) reading_.corrupt("a graph is called with the wrong number of inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto* value = arguments[i].as<ValueRef>();
    if (value == nullptr) unsupported("a number as the input of a graph", "make the number a constant of the model");
    bind(name_in(inputs[i]), value->id);
  }
  read_nodes(inner, block);
  std::vector<Argument> results;
  const Part graph_results = inner.at("outputs");
  for (std::size_t i = 0; i < graph_results.size(); ++i) results.push_back(argument(graph_results[i]));
  names_ = around;
  return results;
}

void ExportedGraph::read_cond(const Part& graph, const Part& part, Block& block) {
  const Operands operands = operands_of(part);
  if (operands.graphs.size() != 2 || operands.others.empty()) reading_.corrupt("cond needs two branches");
  Node node;
  node.origin = origin_of(part);
  node.target = "prim::If";
  node.arguments.push_back({"condition", argument(operands.others.front())});
  std::vector<Argument> inputs;
  for (std::size_t i = 1; i < operands.others.size(); ++i) append(operands.others[i], inputs);
  const Body body(*this, node.origin.scope);
  for (const Part& branch : operands.graphs) {
    Block& body = node.blocks.emplace_back();
    body.outputs = read_body(branch, inputs, body);
  }
  for (const std::string& name : names_in(part.at("outputs"))) {
    node.outputs.push_back(declare(graph, name, ValueSource::node, node.origin.op));
  }
  block.nodes.push_back(std::move(node));
}

void ExportedGraph::append(const Part& operand, std::vector<Argument>& to) {
  const Argument given = argument(operand);
  if (const auto* list = given.as<ArgumentList>()) {
    to.insert(to.end(), list->begin(), list->end());
  } else {
    to.push_back(given);
  }
}

}  // namespace whence::pt2
