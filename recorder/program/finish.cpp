#include "recorder/program/finish.h"

#include <set>

#include "recorder/archive/module_tree.h"
#include "schema/place.h"
#include "schema/program_walk.h"

namespace whence::recorder::program {

TensorData data_of(const c10::IValue& value) {
  at::Tensor tensor;
  if (value.isTensor()) {
    tensor = value.toTensor().detach().resolve_conj().resolve_neg().contiguous();
  } else if (value.isInt()) {
    tensor = at::scalar_tensor(value.toInt(), at::kLong);
  } else if (value.isBool()) {
    tensor = at::scalar_tensor(value.toBool(), at::kBool);
  } else {
    tensor = at::scalar_tensor(value.toDouble(), at::kDouble);
  }
  TensorData data;
  data.dtype = archive::dtype_of(tensor);
  data.shape = tensor.sizes().vec();
  data.bytes = Bytes::part_of(std::make_shared<at::Tensor>(tensor), tensor.const_data_ptr(), tensor.nbytes());
  return data;
}

TensorData copied_data(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.detach().cpu().contiguous();
  TensorData data;
  data.dtype = archive::dtype_of(tensor);
  data.shape = tensor.sizes().vec();
  data.bytes = Bytes::copy_of(dense.const_data_ptr(), dense.nbytes());
  return data;
}

namespace {

bool storable(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() && archive::dtype_of(value.toTensor()) != DType::undefined;
  return value.isInt() || value.isBool() || value.isDouble();
}

// Visits every definition and use of a value in the block.
void each_mention(Block& block, const auto& visit) {
  const auto each_input = [&](Block& inner) { std::ranges::for_each(inner.inputs, visit); };
  each_input(block);
  each_node(block, [&](Node& node) {
    std::ranges::for_each(node.outputs, visit);
    std::ranges::for_each(node.blocks, each_input);
  });
  each_value_read(block, visit);
}

void drop_unmentioned_values(Program& program) {
  const auto visit_all = [&](const auto& visit) {
    for (ProgramInput& input : program.inputs) visit(input.value);
    each_mention(program.body, visit);
    for (ProgramOutput& output : program.outputs) each_value(output.value, visit);
  };
  IndexedVector<ValueId, ValueId> renumbered(program.values.size());
  visit_all([&](ValueId id) { renumbered[id] = id; });
  IndexedVector<ValueId, Value> kept;
  for (const ValueId id : renumbered.keys()) {
    if (renumbered[id].exists()) renumbered[id] = kept.add(std::move(program.values[id]));
  }
  program.values = std::move(kept);
  visit_all([&](ValueId& id) { id = renumbered[id]; });
  renumber_places(program, renumbered);
}

}  // namespace

void finish_program(Program& program, const std::unordered_map<ValueId, c10::IValue>& known) {
  std::int32_t next = 0;
  each_node(program.body, [&](Node& node) { node.origin.op = next++; });

  std::unordered_map<ValueId, const Node*> producers;
  for (const Node* node : operations(program)) {
    for (ValueId output : node->outputs) producers[output] = node;
  }
  // Known values that unknown values or the outputs depend on directly; these become constants.
  std::set<ValueId> frontier;
  const auto mark = [&](ValueId id) {
    if (known.count(id) > 0) frontier.insert(id);
  };
  for (const Node* node : operations(program)) {
    bool all_known = !node->outputs.empty();
    for (ValueId output : node->outputs) all_known = all_known && known.count(output) > 0;
    if (!all_known) each_operand(*node, mark);
  }
  for (const ProgramOutput& output : program.outputs) each_value(output.value, mark);

  for (ValueId id : frontier) {
    const c10::IValue& value = known.at(id);
    if (!storable(value)) continue;
    Constant constant;
    constant.data = data_of(value);
    constant.name = program.values[id].name;
    std::set<std::int32_t> folded;
    std::set<ValueId> seen;
    std::vector<ValueId> pending{id};
    while (!pending.empty()) {
      const ValueId at = pending.back();
      pending.pop_back();
      const auto producer = producers.find(at);
      if (!seen.insert(at).second || producer == producers.end() || known.count(at) == 0) continue;
      if (!folded.insert(producer->second->origin.op).second) continue;
      each_operand(*producer->second, [&](ValueId input) { pending.push_back(input); });
    }
    constant.ops.assign(folded.begin(), folded.end());
    program.values[id].known = program.constants.add(std::move(constant));
  }
  drop_unmentioned_values(program);
}

}  // namespace whence::recorder::program
