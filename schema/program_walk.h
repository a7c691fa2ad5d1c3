// Walks over a program: every node, every value that is read, nested blocks included. What is visited may be changed
// where the argument or block is not const.
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

// Calls `visit(argument)` for all that the node itself is given, and for what its blocks yield to it.
void each_argument(auto& node, const auto& visit) {
  for (auto& argument : node.arguments) visit(argument.value);
  for (auto& block : node.blocks) {
    for (auto& output : block.outputs) visit(output);
  }
}

// Calls `visit(id)` for every value that the node itself reads, and that its blocks yield to it.
void each_operand(auto& node, const auto& visit) {
  each_argument(node, [&](auto& argument) { each_value(argument, visit); });
}

// Calls `visit(node)` for each node in the order of execution, a node before those of its blocks.
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
