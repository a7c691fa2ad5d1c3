#include "annotator/comparison/small_values.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>

#include "annotator/comparison/causal_masks.h"
#include "annotator/derivation/evaluate.h"
#include "annotator/program/tensor_values.h"
#include "annotator/simplify/evaluate/evaluate.h"
#include "schema/element_count.h"

namespace whence::comparison {

using derivation::Contents;
using derivation::FileTensors;
using derivation::no_tensor;
using derivation::TensorNumber;
using derivation::transposed;

namespace {

using graph::GraphNode;
using onnx_file::OnnxNode;
using simplify::Constants;
using Sizes64 = std::vector<std::int64_t>;

constexpr std::uint64_t most_bytes = std::uint64_t{1} << 23;
constexpr int most_depth = 200;  // nodes after one another

TensorData integers(const Sizes64& numbers, bool is_scalar = false) {
  const Sizes64 shape = is_scalar ? Sizes64() : Sizes64{static_cast<std::int64_t>(numbers.size())};
  return {DType::int64, shape, Bytes::copy_of(numbers.data(), numbers.size() * sizeof(std::int64_t))};
}

std::optional<Sizes64> to_integers(const TensorData& data) {
  const auto elements = program::Elements::of(data);
  if (!elements || !is_integral(data.dtype)) return std::nullopt;
  Sizes64 numbers;
  for (std::size_t i = 0; i < elements->size(); ++i) numbers.push_back(static_cast<std::int64_t>(elements->number(i)));
  return numbers;
}

// Returns the axes of Squeeze and Unsqueeze, which older opsets state as an attribute.
std::optional<Sizes64> axes_of(const GraphNode& node, const Constants& inputs) {
  if (inputs.size() > 1 && inputs[1] != nullptr) return to_integers(*inputs[1]);
  const graph::Attribute* const stated = node.find("axes");
  const auto* const axes = stated == nullptr ? nullptr : std::get_if<Sizes64>(&stated->value);
  return axes == nullptr ? std::nullopt : std::optional(*axes);
}

std::optional<Sizes64> unsqueezed(Sizes64 shape, Sizes64 axes) {
  const auto rank = static_cast<std::int64_t>(shape.size() + axes.size());
  for (std::int64_t& axis : axes) axis += axis < 0 ? rank : 0;
  std::ranges::sort(axes);
  for (const std::int64_t axis : axes) {
    if (axis < 0 || axis > static_cast<std::int64_t>(shape.size())) return std::nullopt;
    shape.insert(shape.begin() + axis, 1);
  }
  return shape;
}

std::optional<Sizes64> squeezed(const Sizes64& shape, const std::optional<Sizes64>& axes) {
  Sizes64 kept;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto front = static_cast<std::int64_t>(i), back = front - static_cast<std::int64_t>(shape.size());
    const bool is_named =
        axes && (std::ranges::find(*axes, front) != axes->end() || std::ranges::find(*axes, back) != axes->end());
    if (axes ? !is_named : shape[i] != 1) kept.push_back(shape[i]);
  }
  return kept;
}

std::optional<Sizes64> reshaped(const TensorData& data, const Sizes64& target) {
  Sizes64 shape = target;
  std::int64_t known = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && i < data.shape.size()) shape[i] = data.shape[i];
    if (shape[i] != -1) known *= shape[i];
  }
  const auto open = std::ranges::find(shape, -1);
  if (open != shape.end() && known > 0) *open = data.element_count() / known;
  return shape;
}

// Returns the shape of the result of a node that keeps all elements in their order; nullopt for other nodes.
std::optional<Sizes64> kept_shape(const GraphNode& node, const Constants& inputs) {
  if (node.op_type == "Identity") return inputs[0]->shape;
  if (node.op_type == "Squeeze") return squeezed(inputs[0]->shape, axes_of(node, inputs));
  if (node.op_type == "Unsqueeze") {
    const auto axes = axes_of(node, inputs);
    return axes ? unsqueezed(inputs[0]->shape, *axes) : std::nullopt;
  }
  if (node.op_type == "Reshape" && inputs.size() == 2 && inputs[1] != nullptr) {
    const auto target = to_integers(*inputs[1]);
    return target ? reshaped(*inputs[0], *target) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<TensorData> sizes_of(const GraphNode& node, const Sizes64& shape) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto limited = [&](std::int64_t place) {
    return std::clamp<std::int64_t>(place < 0 ? place + rank : place, 0, rank);
  };
  const std::int64_t start = limited(node.int_attribute("start", 0)), end = limited(node.int_attribute("end", rank));
  return integers(start < end ? Sizes64(shape.begin() + start, shape.begin() + end) : Sizes64());
}

std::optional<TensorData> transpose(const GraphNode& node, const TensorData& data) {
  Sizes64 order(data.shape.size());
  std::iota(order.rbegin(), order.rend(), 0);
  if (const graph::Attribute* const perm = node.find("perm")) {
    const auto* const stated = std::get_if<Sizes64>(&perm->value);
    if (stated == nullptr || !std::ranges::is_permutation(*stated, order)) return std::nullopt;
    order = *stated;
  }
  return transposed(data, {order});
}

}  // namespace

std::optional<TensorData> evaluate_small(const GraphNode& node, const Constants& inputs) {
  if (!node.domain.empty() || inputs.empty() || inputs[0] == nullptr || node.outputs.size() != 1) return std::nullopt;
  const TensorData& data = *inputs[0];
  if (node.op_type == "Shape") return sizes_of(node, data.shape);
  if (node.op_type == "Size") return integers({data.element_count()}, true);
  if (simplify::can_evaluate(node)) return simplify::evaluate(node, inputs, most_bytes);
  if (!data.bytes.in_memory()) return std::nullopt;
  if (node.op_type == "Transpose") return transpose(node, data);
  const auto shape = kept_shape(node, inputs);
  if (!shape || element_count(*shape) != data.element_count()) return std::nullopt;
  return TensorData{data.dtype, *shape, data.bytes};
}

namespace {

// Returns the attributes that evaluation reads.
std::vector<graph::Attribute> attributes_of(const OnnxNode& node, Contents& contents) {
  std::vector<graph::Attribute> all;
  for (const onnx_file::OnnxAttribute& attribute : node.attributes) {
    onnx::AttributeProto message;
    if (attribute.holds_graph ||
        !message.ParseFromArray(attribute.message.data(), static_cast<int>(attribute.message.size())))
      continue;
    graph::Attribute& read = all.emplace_back(graph::Attribute{message.name(), message.i()});
    if (message.type() == onnx::AttributeProto::FLOAT) read.value = message.f();
    if (message.type() == onnx::AttributeProto::STRING) read.value = message.s();
    if (message.type() == onnx::AttributeProto::INTS)
      read.value = Sizes64(message.ints().begin(), message.ints().end());
    if (message.type() == onnx::AttributeProto::TENSOR && node.tensors.size() == 1)
      read.value = contents.data({.tensor = &node.tensors.front(), .name = node.name});
  }
  return all;
}

// Returns a Constant with integers outside of a tensor.
std::optional<TensorData> stated_integers(const std::vector<graph::Attribute>& attributes) {
  for (const graph::Attribute& attribute : attributes) {
    if (const auto* all = std::get_if<Sizes64>(&attribute.value); all != nullptr && attribute.name == "value_ints")
      return integers(*all);
    if (const auto* one = std::get_if<std::int64_t>(&attribute.value); one != nullptr && attribute.name == "value_int")
      return integers({*one}, true);
  }
  return std::nullopt;
}

}  // namespace

GraphNode graph_node_of(const OnnxNode& node, Contents& contents) {
  GraphNode read;
  read.op_type = node.op_type, read.domain = node.domain;
  read.outputs.resize(node.outputs.size());
  read.attributes = attributes_of(node, contents);
  return read;
}

std::optional<TensorData> stated_integers(const GraphNode& node) { return stated_integers(node.attributes); }

FileValues::FileValues(const FileTensors& tensors, Contents& contents, std::map<std::string_view, TensorData> inputs)
    : tensors_(tensors), contents_(contents) {
  for (auto& [name, data] : inputs) known_.emplace(name, std::move(data));
}

const TensorData* FileValues::of(std::string_view value, int depth) {
  const auto found = known_.find(value);
  if (found != known_.end()) return found->second ? &*found->second : nullptr;
  if (depth > most_depth) return nullptr;
  known_[value] = std::nullopt;  // ends circles
  auto computed = compute(value, depth);
  auto& known = known_[value];
  known = std::move(computed);
  return known ? &*known : nullptr;
}

std::optional<TensorData> FileValues::compute(std::string_view value, int depth) {
  if (const TensorNumber tensor = tensors_.find(value); tensor != no_tensor) {
    const auto& dims = tensors_[tensor].tensor->dims;
    if (element_count(dims) < 0 || static_cast<std::uint64_t>(element_count(dims)) > most_bytes) return std::nullopt;
    return contents_.data(tensors_[tensor]);
  }
  const OnnxNode* const maker = tensors_.producer(value);
  if (maker == nullptr || !maker->subgraphs.empty()) return std::nullopt;
  const GraphNode node = graph_node_of(*maker, contents_);
  if (node.op_type == "Constant") return stated_integers(node.attributes);
  Constants inputs;
  for (const std::string_view input : maker->inputs) {
    inputs.push_back(input.empty() ? nullptr : of(input, depth + 1));
    if (!input.empty() && inputs.back() == nullptr) return std::nullopt;
  }
  return evaluate_small(node, inputs);
}

ProgramValues::ProgramValues(const graph::Graph& graph, std::map<graph::GraphValueId, TensorData> inputs)
    : graph_(graph) {
  for (auto& [value, data] : inputs) known_.emplace(value, std::move(data));
}

const TensorData* ProgramValues::of(graph::GraphValueId value, int depth) {
  const auto found = known_.find(value);
  if (found != known_.end()) return found->second ? &*found->second : nullptr;
  if (depth > most_depth) return nullptr;
  auto computed = compute(value, depth);
  auto& known = known_[value];
  known = std::move(computed);
  return known ? &*known : nullptr;
}

std::optional<TensorData> ProgramValues::compute(graph::GraphValueId value, int depth) {
  if (const TensorData* const constant = graph_.constant(value))
    return constant->bytes.size() <= most_bytes ? std::optional(*constant) : std::nullopt;
  const GraphNode* const maker = graph_.producer(value);
  if (maker == nullptr) return std::nullopt;
  Constants inputs;
  for (const graph::GraphValueId input : maker->inputs) {
    inputs.push_back(input == graph::no_value ? nullptr : of(input, depth + 1));
    if (input != graph::no_value && inputs.back() == nullptr) return std::nullopt;
  }
  return evaluate_small(*maker, inputs);
}

}  // namespace whence::comparison
