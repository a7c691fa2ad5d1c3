// Graph bookkeeping: producers, uses, copies, and the removal of unused nodes and initializers.
#include "annotator/graph/graph.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "annotator/program/tensor_values.h"

namespace whence::graph {

const Attribute* GraphNode::find(std::string_view attribute) const {
  for (const Attribute& candidate : attributes) {
    if (candidate.name == attribute) return &candidate;
  }
  return nullptr;
}

std::int64_t GraphNode::int_attribute(std::string_view attribute, std::int64_t otherwise) const {
  const Attribute* found = find(attribute);
  const auto* value = found == nullptr ? nullptr : std::get_if<std::int64_t>(&found->value);
  return value == nullptr ? otherwise : *value;
}

Graph::Graph(Graph&& other) noexcept { *this = std::move(other); }

Graph& Graph::operator=(Graph&& other) noexcept {
  nodes = std::move(other.nodes);
  values = std::move(other.values);
  initializers = std::move(other.initializers);
  inputs = std::move(other.inputs);
  outputs = std::move(other.outputs);
  symbols = std::move(other.symbols);
  folded = std::move(other.folded);
  outer = other.outer;
  adopt_bodies();
  return *this;
}

Graph Graph::clone() const {
  Graph copy;
  copy.nodes = nodes;
  for (GraphNode& node : copy.nodes) {
    for (Attribute& attribute : node.attributes) {
      auto* const body = std::get_if<std::shared_ptr<Graph>>(&attribute.value);
      if (body != nullptr) *body = std::make_shared<Graph>((*body)->clone());
    }
  }
  copy.values = values;
  copy.initializers = initializers;
  copy.inputs = inputs;
  copy.outputs = outputs;
  copy.symbols = symbols;
  copy.folded = folded;
  copy.outer = outer;
  copy.adopt_bodies();
  return copy;
}

void Graph::adopt_bodies() {
  for (const GraphNode& node : nodes) {
    for_each_body(node, [this](Graph& body) { body.outer = this; });
  }
}

GraphValueId Graph::add_value(GraphValue value) {
  values.push_back(std::move(value));
  return static_cast<GraphValueId>(values.size() - 1);
}

std::int32_t Graph::add_node(GraphNode node) {
  const auto index = static_cast<std::int32_t>(nodes.size());
  for (const GraphValueId output : node.outputs) {
    if (output != no_value) values[output].producer = index;
  }
  for_each_body(node, [this](Graph& body) { body.outer = this; });
  nodes.push_back(std::move(node));
  return index;
}

GraphValueId Graph::add_initializer(std::string name, TensorData data, origin::NodeOrigin origin, bool parameter) {
  GraphValue value;
  value.name = std::move(name);
  value.dtype = data.dtype;
  value.dims.emplace();
  for (const std::int64_t size : data.shape) value.dims->push_back(Dim{size, false, none_id});
  value.initializer = static_cast<std::int32_t>(initializers.size());
  const GraphValueId id = add_value(std::move(value));
  initializers.push_back(Initializer{id, std::move(data), std::move(origin), parameter});
  return id;
}

const GraphNode* Graph::producer(GraphValueId value) const {
  const std::int32_t number = value == no_value ? -1 : values[value].producer;
  return number < 0 ? nullptr : &nodes[number];
}

const Initializer* Graph::initializer(GraphValueId value) const {
  const std::int32_t number = value == no_value ? -1 : values[value].initializer;
  return number < 0 ? nullptr : &initializers[number];
}

const TensorData* Graph::constant(GraphValueId value) const {
  if (value == no_value) return nullptr;
  const GraphValue& definition = values[value];
  if (definition.captured != no_value) return outer->constant(definition.captured);
  if (definition.initializer < 0) return nullptr;
  const TensorData& data = initializers[definition.initializer].data;
  return data.bytes.in_memory() ? &data : nullptr;
}

std::optional<std::vector<std::int64_t>> Graph::integers(GraphValueId value) const {
  const TensorData* data = constant(value);
  if (data == nullptr || data->shape.size() > 1) return std::nullopt;
  if (data->dtype != DType::int64 && data->dtype != DType::int32) return std::nullopt;
  const auto elements = program::Elements::of(*data);
  if (!elements) return std::nullopt;
  std::vector<std::int64_t> result(elements->size());
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = elements->integer(i);
  return result;
}

std::vector<std::vector<std::int32_t>> Graph::uses() const {
  std::vector<std::vector<std::int32_t>> uses(values.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].removed) continue;
    const auto index = static_cast<std::int32_t>(i);
    for_each_read(nodes[i], [&](GraphValueId value) { uses[value].push_back(index); });
  }
  for (const GraphValueId output : outputs) uses[output].push_back(-1);
  return uses;
}

// Returns which nodes a graph output depends on. Bodies must have been compacted before, so that they capture only used
// values.
std::vector<bool> Graph::live_nodes() const {
  std::vector<bool> live(nodes.size(), false);
  std::vector<std::int32_t> pending;
  const auto need = [&](GraphValueId value) {
    const std::int32_t producer = values[value].producer;
    if (producer < 0 || live[producer] || nodes[producer].removed) return;
    live[producer] = true;
    pending.push_back(producer);
  };
  for (const GraphValueId output : outputs) need(output);
  while (!pending.empty()) {
    const GraphNode& node = nodes[pending.back()];
    pending.pop_back();
    for_each_read(node, need);
  }
  return live;
}

// Keeps the existing order where it is valid: a node moves only if it must follow its producers.
std::vector<std::int32_t> Graph::topological_order(const std::vector<bool>& live) const {
  std::vector<std::int32_t> order;
  std::vector<bool> placed(nodes.size(), false);
  std::vector<std::pair<std::int32_t, bool>> stack;  // node, and whether its producers are on the stack already
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (live[i]) stack.emplace_back(static_cast<std::int32_t>(i), false);
    while (!stack.empty()) {
      const auto [index, expanded] = stack.back();
      stack.pop_back();
      if (placed[index]) continue;
      if (expanded) {
        placed[index] = true;
        order.push_back(index);
        continue;
      }
      stack.emplace_back(index, true);
      const auto before = [&](GraphValueId value) {
        const std::int32_t producer = value == no_value ? -1 : values[value].producer;
        if (producer >= 0 && live[producer] && !placed[producer]) stack.emplace_back(producer, false);
      };
      const GraphNode& node = nodes[index];
      for_each_body(node, [&](const Graph& body) {
        for (const GraphValue& value : body.values) before(value.captured);
      });
      for (auto input = node.inputs.rbegin(); input != node.inputs.rend(); ++input) before(*input);
    }
  }
  return order;
}

void Graph::drop_unused_initializers() {
  const auto all_uses = uses();
  std::vector<Initializer> kept;
  for (Initializer& initializer : initializers) {
    GraphValue& value = values[initializer.value];
    if (all_uses[initializer.value].empty()) {
      value.initializer = -1;
    } else {
      value.initializer = static_cast<std::int32_t>(kept.size());
      kept.push_back(std::move(initializer));
    }
  }
  initializers = std::move(kept);
}

void Graph::compact() {
  for (const GraphNode& node : nodes) {
    if (!node.removed) for_each_body(node, [](Graph& body) { body.compact(); });
  }
  const std::vector<std::int32_t> order = topological_order(live_nodes());
  std::vector<GraphNode> kept;
  kept.reserve(order.size());
  for (GraphValue& value : values) value.producer = -1;
  for (const std::int32_t index : order) {
    for (const GraphValueId output : nodes[index].outputs) {
      if (output != no_value) values[output].producer = static_cast<std::int32_t>(kept.size());
    }
    kept.push_back(std::move(nodes[index]));
  }
  nodes = std::move(kept);
  const auto all_uses = uses();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (all_uses[i].empty()) values[i].captured = no_value;
  }
  drop_unused_initializers();
}

}  // namespace whence::graph
