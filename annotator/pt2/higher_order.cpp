// Operators that take graphs. An operator that only calls its graph is replaced by the graph's operations: a context
// (no_grad, autocast), which ONNX lacks, hints for a compiler, and a call of a region (invoke_subgraph). `cond` becomes
// prim::If. loops.cpp has `while_loop`, `scan` and `map`.
#include <algorithm>
#include <utility>

#include "annotator/pt2/graph.h"
#include "annotator/pt2/operands.h"

namespace whence::pt2 {

bool ExportedGraph::read_higher_order(const std::string& name, const Part& graph, const Part& node, Block& block) {
  if (const auto before = operands_before_call(name)) return read_call(name, *before, node, block), true;
  if (name == "cond") return read_cond(graph, node, block), true;
  if (name == "while_loop") return read_while_loop(graph, node, block), true;
  if (name == "scan" || name == "map_impl") return read_scan(name == "scan", graph, node, block), true;
  if (name.starts_with("auto_functionalized")) return read_auto_functionalized(graph, node, block), true;
  return false;
}

// Reads no more operands than the graph has inputs; options may follow them.
void ExportedGraph::read_call(const std::string& name, std::size_t before, const Part& node, Block& block) {
  const Operands operands = operands_of(node);
  if (operands.graphs.size() != 1 || operands.others.size() < before) reading_.corrupt("an operand is missing");
  const Part& inner = operands.graphs.front();
  std::vector<Argument> given;
  for (std::size_t i = before; i < operands.others.size() && given.size() < inner.at("inputs").size(); ++i) {
    append(operands.others[i], given);
  }
  Origin call;
  place(node, call);
  const auto stack = node.at("metadata").maybe("nn_module_stack");
  const bool keeps_stacks = name.starts_with("wrap_with_");
  const auto stack_outside = std::exchange(call_stack_, stack && !keeps_stacks ? stack->view() : std::string_view());
  if (name == "invoke_subgraph") {
    inline_region(operands.others.front(), node, call, given, block);
  } else {
    const Body body(*this, call.scope);
    inline_graph(inner, given, node.at("outputs"), block);
  }
  call_stack_ = stack_outside;
}

void ExportedGraph::inline_region(const Part& identifier_operand, const Part& node, const Origin& call,
                                  const std::vector<Argument>& given, Block& block) {
  const auto identifier = identifier_operand.maybe("as_string");
  if (!identifier) reading_.corrupt("the identifier of the region is missing");
  const RegionCall region = region_call(identifier->text(), node.at("metadata"), call, given);
  const Body body(*this, call.scope, &region);
  inline_graph(operands_of(node).graphs.front(), given, node.at("outputs"), block);
}

OperandNames ExportedGraph::parameter_names(const Argument& operand) const {
  const auto* value = operand.as<ValueRef>();
  if (value == nullptr || program_.values[value->id].source != ValueSource::parameter) return {};
  const Parameter& parameter = program_.parameters[ParameterId(program_.values[value->id].index)];
  OperandNames names = {parameter.name};
  names.insert(names.end(), parameter.aliases.begin(), parameter.aliases.end());
  return names;
}

// The graph was captured at the first call with its identifier.
RegionCall ExportedGraph::region_call(const std::string& identifier, const Part& metadata, const Origin& call,
                                      const std::vector<Argument>& operands) {
  RegionCall region{std::nullopt, call.scope, call.basis, ++region_calls_};
  if (!metadata.has("nn_module_stack") || call.basis == ScopeBasis::enclosing) return region;
  FirstCall here{modules_.stated_module(metadata.at("nn_module_stack").view()), {}};
  for (const Argument& operand : operands) here.operands.push_back(parameter_names(operand));
  const auto [first, is_first] = first_calls_.try_emplace(identifier, here);
  if (is_first) {
    region.modules.emplace(here.module);
  } else {
    region.modules.emplace(first->second.module, program_.module_path(call.scope), first->second.operands,
                           here.operands);
    region.basis = std::max(region.basis, ScopeBasis::inferred);
  }
  return region;
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
