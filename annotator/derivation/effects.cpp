#include "annotator/derivation/effects.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <unordered_set>

#include "schema/operator_facts.h"
#include "schema/program_walk.h"

namespace whence::derivation {
namespace {

// Returns true for a Softmax along an axis with one element in every run.
bool is_one(const graph::Graph& graph, const graph::GraphNode& node, int opset) {
  constexpr int by_axis = 13;  // before, Softmax ran over all axes from the stated one
  if (node.op_type != "Softmax" || opset < by_axis || node.inputs.empty()) return false;
  const auto& dims = graph.values[static_cast<std::size_t>(node.inputs[0])].dims;
  if (!dims || dims->empty()) return false;
  const auto rank = static_cast<std::int64_t>(dims->size());
  const std::int64_t axis = node.int_attribute("axis", -1);
  const std::int64_t from_front = axis < 0 ? axis + rank : axis;
  if (from_front < 0 || from_front >= rank) return false;
  const Dim& dim = (*dims)[static_cast<std::size_t>(from_front)];
  return dim.is_static() && dim.size == 1;
}

// Returns the operations of the nodes and constants on which a result of the graph depends.
std::set<std::int32_t> operations_with_effect(const graph::Graph& graph, int opset) {
  std::set<std::int32_t> operations;
  std::set<const graph::GraphNode*> known;
  std::vector<graph::GraphValueId> open(graph.outputs.begin(), graph.outputs.end());
  while (!open.empty()) {
    const graph::GraphValueId id = open.back();
    open.pop_back();
    if (id == graph::no_value) continue;
    const graph::GraphValue& value = graph.values[static_cast<std::size_t>(id)];
    if (value.initializer >= 0) {
      const auto& uses = graph.initializers[static_cast<std::size_t>(value.initializer)].origin.ops;
      operations.insert(uses.begin(), uses.end());
    }
    if (value.producer < 0) continue;
    const graph::GraphNode& node = graph.nodes[static_cast<std::size_t>(value.producer)];
    if (is_one(graph, node, opset) || !known.insert(&node).second) continue;
    operations.insert(node.origin.ops.begin(), node.origin.ops.end());
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    graph::for_each_body(node, [&](const graph::Graph& body) {
      for (const graph::GraphValue& inner : body.values) open.push_back(inner.captured);
    });
  }
  return operations;
}

// Adds the operations whose results no output of the program reads. An operation that writes to a tensor may have an
// effect that no value shows.
void add_unread(const Program& program, std::set<std::int32_t>& without) {
  std::unordered_set<ValueId> read;
  const auto note = [&](ValueId id) { read.insert(id); };
  for (const ProgramOutput& output : program.outputs) each_value(output.value, note);
  for (const Node& node : std::views::reverse(program.body.nodes)) {
    const bool has_effect = is_in_place_name(node.target) || node.outputs.empty() || !node.blocks.empty() ||
                            std::ranges::any_of(node.outputs, [&](ValueId id) { return read.contains(id); });
    if (!has_effect) {
      without.insert(node.origin.op);
      continue;
    }
    each_operand(node, note);
    for (const Block& block : node.blocks) each_value_read(block, note);
  }
}

}  // namespace

std::set<std::int32_t> operations_without_effect(const Program& program, const std::vector<ProgramForm>& forms) {
  std::set<std::int32_t> without;
  add_unread(program, without);
  for (const ProgramForm& form : forms) {
    const auto having = operations_with_effect(*form.graph, form.opset);
    for (const graph::GraphNode& node : form.graph->nodes) {
      if (node.removed) continue;
      std::ranges::copy_if(node.origin.ops, std::inserter(without, without.end()),
                           [&](std::int32_t operation) { return !having.contains(operation); });
    }
  }
  return without;
}

}  // namespace whence::derivation
