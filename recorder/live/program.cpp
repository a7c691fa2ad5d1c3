// Makes a Program from a live trace, at any time, from the operations and names read so far.
#include <torch/version.h>

#include "recorder/archive/source_frames.h"
#include "recorder/live/trace.h"
#include "recorder/program/finish.h"
#include "schema/program_walk.h"
#include "schema/tensor_digests.h"

namespace whence::recorder::live {

namespace {

// Makes the names of values unique. Names values without a Python name after their operation.
void make_unique(IndexedVector<ValueId, Value>& values, const std::vector<const Node*>& nodes) {
  for (const Node* node : nodes) {
    for (const ValueId output : node->outputs) {
      if (values[output].name.empty()) values[output].name = node->target.substr(node->target.rfind(':') + 1);
    }
  }
  std::unordered_map<std::string, int> counts;
  for (Value& value : values) {
    if (value.name.empty()) value.name = "value";
    const std::string name = value.name;
    int& count = counts[name];
    while (count > 0 && counts.count(value.name) > 0) value.name = name + "_" + std::to_string(count++);
    if (count == 0) count = 1;
    counts.try_emplace(value.name, 1);
  }
}

}  // namespace

// Reads the names of parameters. The ONNX exporter passes parameters as the last inputs of the graph, and names them
// when the trace has ended.
void LiveTrace::name_parameters() {
  if (has_self_ || !ended_ || named_) return;
  std::size_t first = inputs_.size();
  const auto graph_inputs = graph_->inputs();
  if (graph_inputs.size() != inputs_.size()) return;
  for (std::size_t i = inputs_.size(); i-- > 0;) {
    if (graph_inputs[i]->debugName() == names_at_end_[i]) break;
    first = i;
  }
  if (first == inputs_.size()) return;
  named_ = true;
  for (std::size_t i = first; i < inputs_.size(); ++i) {
    Value& value = values_[inputs_[i]];
    LiveTensor tensor;
    tensor.name = graph_inputs[i]->debugName();
    tensor.data = input_tensors_[i];
    tensor.dtype = value.type.dtype;
    if (value.type.dims) {
      for (const Dim& dim : *value.type.dims) tensor.shape.push_back(dim.size);
    }
    const auto type = graph_inputs[i]->type()->cast<c10::TensorType>();
    tensor.trainable = type && type->requires_grad();
    tensor.kind = tensor.trainable ? ParameterKind::parameter : ParameterKind::buffer;
    tensor.value = inputs_[i];
    value.source = ValueSource::parameter;
    value.index = static_cast<std::int32_t>(modules_.tensors().size());
    value.name = tensor.name;
    modules_.add_tensor(std::move(tensor));
  }
  inputs_.resize(first);
}

Program LiveTrace::program(bool digests) {
  name_parameters();
  Program program;
  program.source.kind = "live";
  program.producer = "whence " WHENCE_VERSION ", PyTorch " TORCH_VERSION;
  program.ran = true;

  const std::vector<bool> needed = needed_operations();
  std::vector<std::vector<std::string>> touched(calls_.size());
  std::vector<bool> used(calls_.size(), false);
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const Operation& operation = operations_[i];
    const std::int32_t at = operation.call;
    for (std::int32_t call = at; needed[i] && call >= 0; call = calls_[call].parent) used[call] = true;
    for (const NamedArgument& argument : operation.node.arguments) {
      each_value(argument.value, [&](ValueId id) {
        if (values_[id].source != ValueSource::parameter) return;
        touched[at].push_back(modules_.tensors()[values_[id].index].name);
      });
    }
  }
  const LiveModules::Ids ids = modules_.fill(program, calls_, touched, used);
  program.values = values_;
  for (Value& value : program.values) {
    if (value.source == ValueSource::parameter) value.index = ids.parameter_of[value.index].number();
  }

  archive::SourceFrames frames(program);
  for (const std::size_t i : order()) {
    const Operation& operation = operations_[i];
    if (!needed[i]) continue;
    Node node = operation.node;
    node.origin.scope = ids.scope_of[operation.call];
    node.origin.stack = frames.traced_stack(operation.range);
    program.body.nodes.push_back(std::move(node));
  }
  for (const at::Tensor& tensor : constants_) {
    program.constants.push_back({.data = program::copied_data(tensor), .name = "", .ops = {}});
  }
  for (const ValueId input : inputs_) {
    Value& value = program.values[input];
    value.index = static_cast<std::int32_t>(program.inputs.size());
    if (value.name.empty()) value.name = "input";
    program.inputs.push_back({value.name, input});
  }
  program.outputs = outputs_;
  make_unique(program.values, whence::operations(program));
  for (Node& node : program.body.nodes) {
    if (!node.outputs.empty()) node.origin.name = program.values[node.outputs[0]].name;
  }
  for (ProgramInput& input : program.inputs) input.name = program.values[input.value].name;
  program::finish_program(program, known_values_);
  if (digests) compute_digests(program);
  return program;
}

// Returns the execution order: the order of reading, except for operations that the tracer inserted earlier in the
// graph.
std::vector<std::size_t> LiveTrace::order() const {
  std::unordered_map<std::size_t, std::vector<std::size_t>> inserted_after;
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    if (operations_[i].after) inserted_after[*operations_[i].after].push_back(i);
  }
  std::vector<std::size_t> order;
  const std::function<void(std::size_t)> append = [&](std::size_t i) {
    order.push_back(i);
    const auto inserted = inserted_after.find(i);
    if (inserted == inserted_after.end()) return;
    // The tracer inserts always at the same point, so the last inserted operation comes first.
    for (auto each = inserted->second.rbegin(); each != inserted->second.rend(); ++each) append(*each);
  };
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    if (!operations_[i].after) append(i);
  }
  return order;
}

// Returns which operations to keep. Like PyTorch's dead code elimination after a trace, drops operations without
// readers and side effects.
std::vector<bool> LiveTrace::needed_operations() const {
  std::vector<bool> needed(operations_.size(), !reached_end_);
  IndexedVector<ValueId, bool> returned(values_.size());
  for (const ProgramOutput& output : outputs_) each_value(output.value, [&](ValueId id) { returned[id] = true; });
  for (std::size_t i = operations_.size(); i-- > 0;) {
    const Operation& operation = operations_[i];
    needed[i] = needed[i] || operation.stays ||
                std::any_of(operation.node.outputs.begin(), operation.node.outputs.end(),
                            [&](ValueId output) { return returned[output]; });
    if (!needed[i]) continue;
    for (const std::size_t read : operation.reads) needed[read] = true;
  }
  for (std::size_t i = 0; i < operations_.size(); ++i) needed[i] = needed[i] && !operations_[i].cancels_out;
  return needed;
}

}  // namespace whence::recorder::live
