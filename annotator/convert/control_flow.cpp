// Converts prim::If to If and prim::Loop to Loop. A body is a separate graph that sees the values around it: a value of
// an enclosing graph appears in it as a captured value, never as an input.
#include <algorithm>
#include <utility>

#include "annotator/convert/convert.h"
#include "annotator/program/program_facts.h"
#include "annotator/program/tensor_values.h"

namespace whence::convert {

using graph::GraphValueId;

namespace {

// Returns true if both dtypes are known and not equal.
bool differ(DType a, DType b) { return a != DType::undefined && b != DType::undefined && a != b; }

}  // namespace

// Copies a value with an Identity: ONNX requires that each result of a body is produced by its own node.
GraphValueId ConvertSession::copied(GraphValueId value) {
  constexpr int identity_of_sequences = 14;
  if (graph().values[value].sequence && opset() < identity_of_sequences) {
    throw Error(Code::unsupported_feature, "a branch or loop that hands on a list as it is needs opset 14",
                "export with --opset 14 or higher",
                node_ == nullptr ? Place{} : program::place_of(program_, *node_, "convert"));
  }
  return emit("", "Identity", {value}, {}, 1).front();
}

// Returns a placeholder for a result that only the other branch gives, because this branch returned early. It is never
// read, but ONNX requires a value of that type.
GraphValueId ConvertSession::placeholder(const Type& type) {
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

void ConvertSession::open_body() {
  auto body = std::make_shared<graph::Graph>();
  body->outer = &graph();
  body->symbols = program_.symbols;
  frames_.push_back(std::make_unique<Frame>());
  frames_.back()->graph = body.get();
  frames_.back()->body = std::move(body);
}

GraphValueId ConvertSession::add_body_input(graph::GraphValue value) {
  value.is_input = true;
  const GraphValueId id = graph().add_value(std::move(value));
  graph().inputs.push_back(id);
  return id;
}

void ConvertSession::add_body_output(GraphValueId value) {
  const auto& outputs = graph().outputs;
  const bool taken = std::find(outputs.begin(), outputs.end(), value) != outputs.end();
  const GraphValueId own = graph().values[value].producer < 0 || taken ? copied(value) : value;
  graph().outputs.push_back(own);
}

std::shared_ptr<graph::Graph> ConvertSession::close_body() {
  std::shared_ptr<graph::Graph> body = std::move(frames_.back()->body);
  frames_.pop_back();
  return body;
}

GraphValueId ConvertSession::from_enclosing(GraphValueId value) {
  return from_outer(frames_.size() - 1, value, frames_.size() - 2);
}

// Inputs of a loop's body: iteration, condition (which PyTorch's body does not have), carried values.
std::shared_ptr<graph::Graph> ConvertSession::convert_body(const Block& block, const std::vector<Type>& results,
                                                           bool loop) {
  open_body();
  for (std::size_t i = 0; i < block.inputs.size(); ++i) {
    frames_.back()->values[block.inputs[i]] = add_body_input(graph_value(program_.values[block.inputs[i]].type));
    if (loop && i == 0) add_body_input(graph_value(Type{ValueKind::boolean, DType::boolean, std::nullopt}));
  }
  const Node* owner = node_;
  convert_nodes(block.nodes);
  node_ = owner;
  bool failed = false;
  for (std::size_t i = 0; i < block.outputs.size(); ++i) {
    try {
      const bool typed = i < results.size();
      GraphValueId value = typed && block.outputs[i].is_none() ? placeholder(results[i]) : value_of(block.outputs[i]);
      if (typed && differ(graph().values[value].dtype, results[i].dtype)) {
        value = emit("", "Cast", {value}, {{"to", static_cast<std::int64_t>(to_onnx(results[i].dtype))}}, 1).front();
      }
      add_body_output(value);
    } catch (const Poisoned&) {
      failed = true;
    } catch (const Error& error) {
      record(error);
      failed = true;
    }
  }
  std::shared_ptr<graph::Graph> body = close_body();
  return failed ? nullptr : body;
}

// Arguments: condition. Blocks: then, else; both end with the node's results.
void ConvertSession::convert_if(const Node& node) {
  std::vector<Type> types;
  for (const ValueId output : node.outputs) types.push_back(program_.values[output].type);
  const auto then_body = convert_body(node.blocks[0], types, false);
  const auto else_body = convert_body(node.blocks[1], types, false);
  const GraphValueId condition = value_of(node.arguments.front().value);
  if (!then_body || !else_body) throw Poisoned{};
  const auto results = emit("", "If", {condition}, {{"then_branch", then_body}, {"else_branch", else_body}},
                            static_cast<int>(node.outputs.size()));
  for (std::size_t i = 0; i < results.size(); ++i) {
    graph().values[results[i]].dtype = then_body->values[then_body->outputs[i]].dtype;
    bind(node.outputs[i], results[i]);
  }
}

// Arguments: max_trip_count, condition, initial (the list of carried values). The block ends with the next condition
// and the next carried values; further results are stacked over all iterations, along a new first axis.
void ConvertSession::convert_loop(const Node& node) {
  std::vector<GraphValueId> inputs;
  for (const NamedArgument& argument : node.arguments) {
    if (const auto* list = argument.value.as<ArgumentList>()) {
      const std::vector<ValueId>& inside = node.blocks.front().inputs;
      for (std::size_t i = 0; i < list->size(); ++i) {
        inputs.push_back((*list)[i].is_none() ? placeholder(program_.values[inside[i + 1]].type)
                                              : value_of((*list)[i]));
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
  const auto body = convert_body(node.blocks.front(), types, true);
  if (!body) throw Poisoned{};
  const auto results = emit("", "Loop", std::move(inputs), {{"body", body}}, static_cast<int>(node.outputs.size()));
  for (std::size_t i = 0; i < results.size(); ++i) {
    graph().values[results[i]].dtype = body->values[body->outputs[i + 1]].dtype;
    bind(node.outputs[i], results[i]);
  }
}

}  // namespace whence::convert
