#include "annotator/exporter/bfloat16.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>
#include <utility>

namespace whence::exporter {

using graph::Attribute, graph::Graph, graph::GraphNode, graph::GraphValue, graph::GraphValueId, graph::no_value;

namespace {

bool is_bfloat16(const Graph& graph, GraphValueId id) {
  if (id == no_value) return false;
  const GraphValue& value = graph.values[id];
  return value.dtype == DType::bfloat16 && !value.sequence && !value.optional;
}

// Returns true for control flow, sequences and optionals, which take every type.
bool takes_every_type(const GraphNode& node) {
  constexpr std::array words{"If", "Loop", "Scan", "Sequence", "Optional", "SplitToSequence", "ConcatFromSequence"};
  return std::ranges::any_of(words, [&](std::string_view word) { return node.op_type.starts_with(word); });
}

bool needs_widening(const Graph& graph, const GraphNode& node) {
  if (!node.domain.empty() || node.removed || takes_every_type(node)) return false;
  if (std::ranges::binary_search(runs_in_bfloat16, std::string_view(node.op_type))) return false;
  const auto is_narrow = [&](GraphValueId id) { return is_bfloat16(graph, id); };
  return std::ranges::any_of(node.inputs, is_narrow) || std::ranges::any_of(node.outputs, is_narrow);
}

// Converts exactly: a bfloat16 is the upper half of a float32.
TensorData as_float32(const TensorData& tensor) {
  TensorData wide = tensor;
  wide.dtype = DType::float32;
  const auto bytes = *tensor.bytes.in_memory();
  std::string text(bytes.size() * 2, '\0');
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) std::memcpy(text.data() + 2 * i + 2, bytes.data() + i, 2);
  wide.bytes = Bytes::owned(std::move(text));
  return wide;
}

// Widens the attribute that sets the result dtype of a node without typed inputs: EyeLike, ConstantOfShape,
// RandomNormal.
void widen(Attribute& attribute) {
  const auto narrow = static_cast<std::int64_t>(to_onnx(DType::bfloat16));
  if (auto* number = std::get_if<std::int64_t>(&attribute.value)) {
    if (attribute.name == "dtype" && *number == narrow) *number = to_onnx(DType::float32);
  } else if (auto* tensor = std::get_if<TensorData>(&attribute.value)) {
    if (tensor->dtype == DType::bfloat16 && tensor->bytes.in_memory()) attribute.value = as_float32(*tensor);
  }
}

class Widening {
 public:
  explicit Widening(Graph& graph) : graph_(graph) {}

  std::size_t run() {
    std::size_t changed = 0;
    const std::size_t before = graph_.nodes.size();
    for (std::size_t i = 0; i < before; ++i) {
      graph::for_each_body(graph_.nodes[i], [&](Graph& body) { changed += widen_bfloat16(body); });
      if (!needs_widening(graph_, graph_.nodes[i])) continue;
      change(static_cast<std::int32_t>(i));
      ++changed;
    }
    return changed;
  }

 private:
  void change(std::int32_t index) {
    GraphNode node = std::move(graph_.nodes[index]);
    for (Attribute& attribute : node.attributes) widen(attribute);
    for (GraphValueId& input : node.inputs) {
      if (is_bfloat16(graph_, input)) input = in_float32(input, node.origin);
    }
    for (GraphValueId& output : node.outputs) {
      if (!is_bfloat16(graph_, output)) continue;
      const GraphValueId wide = wide_form(output);
      graph_.values[wide].producer = index;
      add_cast(wide, output, DType::bfloat16, node.origin);
      output = wide;
    }
    graph_.nodes[index] = std::move(node);
  }

  // Adds one cast per value, shared by all of its readers.
  GraphValueId in_float32(GraphValueId value, const origin::NodeOrigin& reader) {
    auto [entry, is_new] = casts_.try_emplace(value, -1);
    if (is_new) {
      entry->second = add_cast(value, wide_form(value), DType::float32, reader);
    } else {
      origin::NodeOrigin& origin = graph_.nodes[entry->second].origin;
      if (origin.ops != reader.ops) origin = merge_origins(origin, reader, origin::OriginKind::shared);
    }
    return graph_.nodes[entry->second].outputs.front();
  }

  GraphValueId wide_form(GraphValueId value) {
    GraphValue wide;
    wide.dtype = DType::float32;
    wide.dims = graph_.values[value].dims;
    return graph_.add_value(std::move(wide));
  }

  std::int32_t add_cast(GraphValueId from, GraphValueId to, DType dtype, const origin::NodeOrigin& origin) {
    GraphNode cast;
    cast.op_type = "Cast";
    cast.inputs = {from};
    cast.outputs = {to};
    cast.attributes = {{"to", static_cast<std::int64_t>(to_onnx(dtype))}};
    cast.origin = origin;
    return graph_.add_node(std::move(cast));
  }

  Graph& graph_;
  std::unordered_map<GraphValueId, std::int32_t> casts_;  // bfloat16 value -> index of its Cast
};

}  // namespace

std::size_t widen_bfloat16(Graph& graph) {
  const std::size_t changed = Widening(graph).run();
  if (changed > 0 && graph.outer == nullptr) graph.compact();
  return changed;
}

}  // namespace whence::exporter
