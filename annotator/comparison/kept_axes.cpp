#include "annotator/comparison/kept_axes.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include <onnx/onnx_pb.h>

namespace whence::comparison {
namespace {

using derivation::FileTensors;
using derivation::no_tensor;
using derivation::TensorNumber;
using onnx_file::OnnxGraph;
using onnx_file::OnnxNode;

using Rank = std::optional<std::int64_t>;  // nullopt: computed when the file runs
using Ranks = std::set<Rank>;

bool changes_axes(std::string_view op_type) {
  return op_type == "Flatten" || op_type == "Reshape" || op_type == "Squeeze" || op_type == "Unsqueeze";
}

bool keeps_sizes(std::string_view op_type) {
  return op_type == "Cast" || op_type == "Identity" || op_type == "QuantizeLinear" || op_type == "DequantizeLinear";
}

// Returns how many axes or sizes a node states, at input 1 or in `axes`.
Rank stated_count(const OnnxNode& node, const FileTensors& tensors) {
  const TensorNumber stated = node.inputs.size() > 1 ? tensors.find(node.inputs[1]) : no_tensor;
  if (stated != no_tensor) {
    const auto& dims = tensors[stated].tensor->dims;
    return dims.size() == 1 ? Rank(dims[0]) : std::nullopt;
  }
  for (const onnx_file::OnnxAttribute& attribute : node.attributes) {
    onnx::AttributeProto message;
    const bool is_axes = attribute.name == "axes" &&
                         message.ParseFromArray(attribute.message.data(), static_cast<int>(attribute.message.size()));
    if (is_axes) return message.ints_size();
  }
  return std::nullopt;
}

Rank rank_after(const OnnxNode& node, Rank rank, const FileTensors& tensors) {
  if (node.op_type == "Flatten") return 2;
  const Rank count = stated_count(node, tensors);
  if (node.op_type == "Reshape") return count;
  if (!rank || !count) return std::nullopt;
  return node.op_type == "Squeeze" ? *rank - *count : *rank + *count;
}

// Adds the number of axes of a value where it is read, behind nodes that only change its axes.
void add_ranks(std::string_view value, Rank rank, const OnnxGraph& file, const FileTensors& tensors, Ranks& ranks) {
  const auto& readers = tensors.readers(value);
  const bool is_output = std::ranges::any_of(file.outputs, [&](const auto& output) { return output.name == value; });
  if (is_output || readers.empty()) ranks.insert(rank);
  for (const OnnxNode* reader : readers) {
    const bool changes = changes_axes(reader->op_type), passes = changes || keeps_sizes(reader->op_type);
    if (!passes || reader->inputs[0] != value || reader->outputs.empty()) {
      ranks.insert(rank);
    } else {
      add_ranks(reader->outputs[0], changes ? rank_after(*reader, rank, tensors) : rank, file, tensors, ranks);
    }
  }
}

Rank rank_of(const graph::Graph& graph, graph::GraphValueId value) {
  const auto& dims = graph.values[static_cast<std::size_t>(value)].dims;
  return dims ? Rank(static_cast<std::int64_t>(dims->size())) : std::nullopt;
}

void add_ranks(const graph::Graph& graph, const std::vector<std::vector<std::int32_t>>& uses, graph::GraphValueId value,
               Ranks& ranks) {
  const auto& readers = uses[static_cast<std::size_t>(value)];
  if (readers.empty()) ranks.insert(rank_of(graph, value));
  for (const std::int32_t reader : readers) {
    const graph::GraphNode* const node = reader < 0 ? nullptr : &graph.nodes[static_cast<std::size_t>(reader)];
    const bool passes = node != nullptr && (changes_axes(node->op_type) || keeps_sizes(node->op_type));
    if (!passes || node->inputs[0] != value || node->outputs.empty()) {
      ranks.insert(rank_of(graph, value));
    } else {
      add_ranks(graph, uses, node->outputs[0], ranks);
    }
  }
}

// Returns along how many axes a node reduces a value of this rank.
Rank reduced_axes(const graph::Graph& graph, const graph::GraphNode& node, std::int64_t rank) {
  if (node.op_type.starts_with("Arg")) return 1;
  if (const graph::Attribute* const axes = node.find("axes")) {
    const auto* const stated = std::get_if<std::vector<std::int64_t>>(&axes->value);
    return stated == nullptr ? std::nullopt : Rank(static_cast<std::int64_t>(stated->size()));
  }
  if (node.inputs.size() < 2 || node.inputs[1] == graph::no_value) return rank;
  const auto stated = graph.integers(node.inputs[1]);
  return stated ? Rank(static_cast<std::int64_t>(stated->size())) : std::nullopt;
}

}  // namespace

bool same_axes_after(const OnnxNode& node, bool keeps, const OperationForms::FormNode& form, const OnnxGraph& file,
                     const FileTensors& tensors) {
  const graph::Graph& graph = *form.graph;
  if (form.node->inputs.empty() || form.node->inputs[0] == graph::no_value) return false;
  const Rank rank = rank_of(graph, form.node->inputs[0]);
  const Rank reduced = rank ? reduced_axes(graph, *form.node, *rank) : std::nullopt;
  if (!reduced || node.outputs.empty() || form.node->outputs.empty()) return false;
  Ranks theirs, ours;
  add_ranks(node.outputs[0], keeps ? *rank : *rank - *reduced, file, tensors, theirs);
  add_ranks(graph, graph.uses(), form.node->outputs[0], ours);
  return std::ranges::all_of(theirs, [&](const Rank& each) { return !each || ours.contains(each); });
}

}  // namespace whence::comparison
