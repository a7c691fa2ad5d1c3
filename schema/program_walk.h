// Visits nodes and values of a program, nested blocks included. The visitor may change what it visits if the node,
// block or argument is not const.
#pragma once

#include "schema/program.h"

namespace whence {

// Calls `visit(id)` for every reference to a value, elements of lists included.
void each_value(auto& argument, const auto& visit) {
  if (auto* value = std::get_if<ValueRef>(&argument.data)) visit(value->id);
  if (auto* list = std::get_if<ArgumentList>(&argument.data)) {
    for (auto& element : *list) each_value(element, visit);
  }
}

// Calls `visit(argument)` for every argument of the node and every output of its blocks.
void each_argument(auto& node, const auto& visit) {
  for (auto& argument : node.arguments) visit(argument.value);
  for (auto& block : node.blocks) {
    for (auto& output : block.outputs) visit(output);
  }
}

// Calls `visit(id)` for every value in the node's arguments and in the outputs of its blocks.
void each_operand(auto& node, const auto& visit) {
  each_argument(node, [&](auto& argument) { each_value(argument, visit); });
}

// Calls `visit(node)` for each node in execution order, a node before the nodes in its blocks.
void each_node(auto& block, const auto& visit) {
  for (auto& node : block.nodes) {
    visit(node);
    for (auto& nested : node.blocks) each_node(nested, visit);
  }
}

// Calls `visit(id)` for every reference to a value in the block, its outputs included.
void each_value_read(auto& block, const auto& visit) {
  each_node(block, [&](auto& node) { each_operand(node, visit); });
  for (auto& output : block.outputs) each_value(output, visit);
}

}  // namespace whence
