// prim::If -> If and prim::Loop -> Loop. A body is a graph of its own that sees the values around it: a value of an
// enclosing graph appears in it as a captured value, never as an input.
#include <algorithm>
#include <utility>

#include "annotator/convert/convert.h"
#include "annotator/program/program_facts.h"
#include "annotator/program/tensor_values.h"

namespace whence::convert {

using graph::GraphValueId;

namespace {

// Only where both are known, two dtypes can disagree.
bool differ(DType a, DType b) { return a != DType::undefined && b != DType::undefined && a != b; }

}  // namespace

// A result of a body has to be some node's own.
GraphValueId ConvertSession::copied(GraphValueId value) {
  constexpr int identity_of_sequences = 14;
  if (graph().values[value].sequence && opset() < identity_of_sequences) {
    throw Error(Code::unsupported_feature, "a branch or loop that hands on a list as it is needs opset 14",
                "export with --opset 14 or higher",
                node_ == nullptr ? Place{} : program::place_of(program_, *node_, "convert"));
  }
  return emit("", "Identity", {value}, {}, 1).front();
}

// Returns a placeholder for a result that only the other side gives, because this side returned before. It is never
// read, but ONNX requires a value of the type there.
GraphValueId ConvertSession::unread(const Type& type) {
  const DType dtype = type.dtype == DType::undefined ? DType::float32 : type.dtype;
  if (type.kind == ValueKind::sequence) {
    return emit("", "SequenceEmpty", {}, {{"dtype", static_cast<std::int64_t>(to_onnx(dtype))}}, 1).front();
  }
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : type.dims.value_or(std::vector<Dim>())) sizes.push_back(dim.is_static() ? dim.size : 1);
  TensorData element = program::integer_scalar(0, dtype);
  element.shape = {1};
  return emit("", "ConstantOfShape", {constant(program::integer_vector(sizes))}, {{"value", std::move(element)}}, 1)
      .front();
}

// Inputs of a loop's body: iteration, condition (which PyTorch's body does not have), carried values.
ConvertSession::Body ConvertSession::convert_body(const Block& block, const std::vector<Type>& results, bool loop) {
  Body body{std::make_shared<graph::Graph>(), {}};
  body.graph->outer = &graph();
  body.graph->symbols = program_.symbols;
  frames_.push_back(std::make_unique<Frame>());
  Frame& frame = *frames_.back();
  frame.graph = body.graph.get();
  const auto add_input = [&](const Type& type) {
    graph::GraphValue value = graph_value(type);
    value.is_input = true;
    const GraphValueId id = body.graph->add_value(std::move(value));
    body.graph->inputs.push_back(id);
    return id;
  };
  for (std::size_t i = 0; i < block.inputs.size(); ++i) {
    frame.values[block.inputs[i]] = add_input(program_.values[block.inputs[i]].type);
    if (loop && i == 0) add_input(Type{ValueKind::boolean, DType::boolean, std::nullopt});
  }
  const Node* owner = node_;
  convert_nodes(block.nodes);
  node_ = owner;
  for (std::size_t i = 0; i < block.outputs.size(); ++i) {
    body.poisoned.push_back(false);
    try {
      const bool typed = i < results.size();
      GraphValueId value = typed && block.outputs[i].is_none() ? unread(results[i]) : value_of(block.outputs[i]);
      if (typed && differ(body.graph->values[value].dtype, results[i].dtype)) {
        value = emit("", "Cast", {value}, {{"to", static_cast<std::int64_t>(to_onnx(results[i].dtype))}}, 1).front();
      }
      const auto& outputs = body.graph->outputs;
      const bool taken = std::find(outputs.begin(), outputs.end(), value) != outputs.end();
      if (body.graph->values[value].producer < 0 || taken) value = copied(value);
      body.graph->outputs.push_back(value);
    } catch (const Poisoned&) {
      body.poisoned.back() = true;
    } catch (const Error& error) {
      record(error);
      body.poisoned.back() = true;
    }
  }
  frames_.pop_back();
  return body;
}

// Arguments: condition. Blocks: then, else; both end with the node's results.
void ConvertSession::convert_if(const Node& node) {
  std::vector<Type> types;
  for (const ValueId output : node.outputs) types.push_back(program_.values[output].type);
  const Body then_body = convert_body(node.blocks[0], types, false);
  const Body else_body = convert_body(node.blocks[1], types, false);
  const auto failed = [](const Body& body) {
    return std::find(body.poisoned.begin(), body.poisoned.end(), true) != body.poisoned.end();
  };
  const GraphValueId condition = value_of(node.arguments.front().value);
  if (failed(then_body) || failed(else_body)) throw Poisoned{};
  const auto results = emit("", "If", {condition}, {{"then_branch", then_body.graph}, {"else_branch", else_body.graph}},
                            static_cast<int>(node.outputs.size()));
  for (std::size_t i = 0; i < results.size(); ++i) {
    graph().values[results[i]].dtype = then_body.graph->values[then_body.graph->outputs[i]].dtype;
    bind(node.outputs[i], results[i]);
  }
}

// Arguments: max_trip_count, condition, initial (the list of carried values). The block ends with the next condition
// and the next carried values; results beyond those are stacked over all iterations, along a new first axis.
void ConvertSession::convert_loop(const Node& node) {
  std::vector<GraphValueId> inputs;
  for (const NamedArgument& argument : node.arguments) {
    if (const auto* list = argument.value.as<ArgumentList>()) {
      const std::vector<ValueId>& inside = node.blocks.front().inputs;
      for (std::size_t i = 0; i < list->size(); ++i) {
        inputs.push_back((*list)[i].is_none() ? unread(program_.values[inside[i + 1]].type) : value_of((*list)[i]));
      }
    } else {
      inputs.push_back(value_of(argument.value));
    }
  }
  std::vector<Type> types{{ValueKind::boolean, DType::boolean, std::nullopt}};
  constexpr std::size_t first_carried = 2;
  for (std::size_t i = first_carried; i < inputs.size(); ++i) {
    types.push_back(program_.values[node.blocks.front().inputs[i - 1]].type);
    types.back().dtype = graph().values[inputs[i]].dtype;
  }
  const Body body = convert_body(node.blocks.front(), types, true);
  if (std::find(body.poisoned.begin(), body.poisoned.end(), true) != body.poisoned.end()) throw Poisoned{};
  const auto results =
      emit("", "Loop", std::move(inputs), {{"body", body.graph}}, static_cast<int>(node.outputs.size()));
  for (std::size_t i = 0; i < results.size(); ++i) {
    graph().values[results[i]].dtype = body.graph->values[body.graph->outputs[i + 1]].dtype;
    bind(node.outputs[i], results[i]);
  }
}

}  // namespace whence::convert
