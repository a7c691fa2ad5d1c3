// while_loop(cond, body, [carried], [others])    ->  prim::Loop, its condition computed before it and after its body
// scan(combine, [carried], [scanned], [others])  ->  prim::Loop over the first axis of the scanned tensors
// map(body, [scanned], [others])                 ->  the same, with nothing carried
//
// All pass the carried values first and the others last to every graph. The others are values of the enclosing graph,
// which a body reads directly. A saved scan has no `reverse` and `dim`: they are operations before and after it.
#include <cstdint>
#include <limits>

#include "annotator/pt2/graph.h"
#include "annotator/pt2/operands.h"

namespace whence::pt2 {

ValueId ExportedGraph::iteration() {
  const auto id = ValueId(program_.values.size());
  Value value;
  value.name = "iteration." + std::to_string(id.number());
  value.type = {ValueKind::integer, DType::int64, std::nullopt};
  value.source = ValueSource::block_input;
  program_.values.push_back(std::move(value));
  return id;
}

void ExportedGraph::read_while_loop(const Part& graph, const Part& part, Block& block) {
  const Operands operands = operands_of(part);
  if (operands.graphs.size() != 2 || operands.others.size() != 2)
    reading_.corrupt("a while_loop needs two graphs and two lists of operands");
  const Part &condition = operands.graphs[0], &body = operands.graphs[1];
  ArgumentList initial;
  std::vector<Argument> others;
  append(operands.others[0], initial);
  append(operands.others[1], others);
  const auto with_others = [&](std::vector<Argument> carried) {
    carried.insert(carried.end(), others.begin(), others.end());
    return carried;
  };
  const auto check = [&](const std::vector<Argument>& carried, Block& to) {
    const std::vector<Argument> result = read_body(condition, with_others(carried), to);
    if (result.size() != 1) reading_.corrupt("a condition must have one result");
    return result.front();
  };

  Node node;
  node.target = "prim::Loop";
  node.origin = origin_of(part);
  next_op_ = node.origin.op;  // the first condition is computed before the loop
  const Body inside(*this, node.origin.scope);
  const Argument first = check(initial, block);
  node.origin.op = next_op_++;
  node.arguments = {
      {"max_trip_count", {std::numeric_limits<std::int64_t>::max()}}, {"condition", first}, {"initial", {initial}}};
  Block& body_block = node.blocks.emplace_back();
  body_block.inputs.push_back(iteration());
  const Part inputs = body.at("inputs");
  if (inputs.size() != initial.size() + others.size())
    reading_.corrupt("a loop is called with the wrong number of values");
  std::vector<Argument> carried;
  const Names around = std::exchange(names_, {});
  for (std::size_t i = 0; i < initial.size(); ++i) {
    body_block.inputs.push_back(declare(body, name_in(inputs[i]), ValueSource::block_input, none_id));
    carried.push_back({ValueRef{body_block.inputs.back()}});
  }
  names_ = around;
  const std::vector<Argument> next = read_body(body, with_others(carried), body_block);
  if (next.size() != initial.size()) reading_.corrupt("a loop does not return as many values as it carries");
  body_block.outputs.push_back(check(next, body_block));
  body_block.outputs.insert(body_block.outputs.end(), next.begin(), next.end());
  for (const std::string& name : names_in(part.at("outputs"))) {
    node.outputs.push_back(declare(graph, name, ValueSource::node, node.origin.op));
  }
  if (node.outputs.size() != initial.size()) reading_.corrupt("a loop does not have as many results as carried values");
  block.nodes.push_back(std::move(node));
}

// Returns the size of the first axis: a number, or the result of a new operation.
Argument ExportedGraph::length_of(const Argument& scanned, const Origin& origin, Block& block) {
  const auto* value = scanned.as<ValueRef>();
  if (value == nullptr) reading_.corrupt("a scanned operand is not a tensor");
  const auto& dims = program_.values[value->id].type.dims;
  if (!dims || dims->empty()) reading_.corrupt("a scanned tensor has no axes");
  if (dims->front().is_static()) return {dims->front().size};
  Node size;
  size.target = "aten::size";
  size.overload = "int";
  size.arguments = {{"self", scanned}, {"dim", {std::int64_t{0}}}};
  size.origin = origin;
  size.origin.op = next_op_++;
  const ValueId id = iteration();
  program_.values[id].source = ValueSource::node;
  program_.values[id].name = "length." + std::to_string(id.number());
  size.outputs.push_back(id);
  block.nodes.push_back(std::move(size));
  return {ValueRef{id}};
}

void ExportedGraph::read_scan(bool carries, const Part& graph, const Part& part, Block& block) {
  const Operands operands = operands_of(part);
  const std::size_t lists = carries ? 3 : 2;
  if (operands.graphs.size() != 1 || operands.others.size() != lists)
    reading_.corrupt(carries ? "a scan needs one graph and three lists of operands"
                             : "a map needs one graph and two lists of operands");
  const Part& combine = operands.graphs.front();
  ArgumentList initial;
  std::vector<Argument> scanned, others;
  if (carries) append(operands.others.front(), initial);
  append(operands.others[lists - 2], scanned);
  append(operands.others[lists - 1], others);
  const Part inputs = combine.at("inputs");
  if (inputs.size() != initial.size() + scanned.size() + others.size() || scanned.empty()) {
    reading_.corrupt("a scan is called with the wrong number of values");
  }

  Node node;
  node.target = "prim::Loop";
  node.origin = origin_of(part);
  next_op_ = node.origin.op;
  const Argument length = length_of(scanned.front(), node.origin, block);
  node.origin.op = next_op_++;
  node.arguments = {{"max_trip_count", length}, {"condition", {true}}, {"initial", {initial}}};
  const Body inside(*this, node.origin.scope);
  Block& body_block = node.blocks.emplace_back();
  body_block.inputs.push_back(iteration());
  std::vector<Argument> arguments;
  const Names around = std::exchange(names_, {});
  for (std::size_t i = 0; i < initial.size(); ++i) {
    body_block.inputs.push_back(declare(combine, name_in(inputs[i]), ValueSource::block_input, none_id));
    arguments.push_back({ValueRef{body_block.inputs.back()}});
  }
  for (std::size_t i = 0; i < scanned.size(); ++i) {
    Node slice;
    slice.target = "aten::select";
    slice.overload = "int";
    slice.arguments = {
        {"self", scanned[i]}, {"dim", {std::int64_t{0}}}, {"index", {ValueRef{body_block.inputs.front()}}}};
    slice.origin = node.origin;
    slice.origin.op = next_op_++;
    slice.outputs.push_back(declare(combine, name_in(inputs[initial.size() + i]), ValueSource::node, slice.origin.op));
    arguments.push_back({ValueRef{slice.outputs.front()}});
    body_block.nodes.push_back(std::move(slice));
  }
  names_ = around;
  arguments.insert(arguments.end(), others.begin(), others.end());
  const std::vector<Argument> results = read_body(combine, arguments, body_block);
  if (results.size() < initial.size()) reading_.corrupt("a scan returns fewer values than it carries");
  body_block.outputs.push_back({true});
  body_block.outputs.insert(body_block.outputs.end(), results.begin(), results.end());
  for (const std::string& name : names_in(part.at("outputs"))) {
    node.outputs.push_back(declare(graph, name, ValueSource::node, node.origin.op));
  }
  if (node.outputs.size() != results.size()) reading_.corrupt("a scan does not have as many results as its graph");
  block.nodes.push_back(std::move(node));
}

}  // namespace whence::pt2
