#include "annotator/simplify/rewriter.h"

#include <algorithm>

#include "schema/sort_unique.h"

namespace whence::simplify {

using graph::Graph;
using graph::GraphNode;
using graph::GraphValue;
using graph::GraphValueId;
using graph::no_value;

Rewriter::Rewriter(Graph& graph, int opset, operators::OperatorForms forms)
    : graph_(graph),
      opset_(opset),
      forms_(forms),
      use_count_(graph.values.size(), 0),
      users_(graph.values.size()),
      is_output_(graph.values.size(), false),
      from_numbers_(graph.values.size(), false),
      queued_(graph.nodes.size(), false) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) add_uses(static_cast<std::int32_t>(i));
  for (const GraphValueId output : graph.outputs) {
    ++use_count_[output];
    is_output_[output] = true;
  }
  for (const Graph* scope = &graph; scope != nullptr; scope = scope->outer) {
    for (const graph::Initializer& each : scope->initializers) model_bytes_ += each.data.bytes.size();
  }
}

void Rewriter::add_uses(std::int32_t node) {
  for_each_read(graph_.nodes[node], [&](GraphValueId value) {
    ++use_count_[value];
    users_[value].push_back(node);
  });
}

const GraphNode* Rewriter::producer(GraphValueId id) const {
  if (id == no_value) return nullptr;
  const std::int32_t index = graph_.values[id].producer;
  return index < 0 ? nullptr : &graph_.nodes[index];
}

const GraphNode* Rewriter::producer(GraphValueId id, std::string_view op_type) const {
  const GraphNode* node = producer(id);
  return node != nullptr && node->domain.empty() && node->op_type == op_type ? node : nullptr;
}

bool Rewriter::is_parameter(GraphValueId id) const {
  const std::int32_t initializer = graph_.values[id].initializer;
  return initializer >= 0 && graph_.initializers[static_cast<std::size_t>(initializer)].parameter;
}

FoldedConstants Rewriter::constants_read(const GraphNode& node) const {
  FoldedConstants read{.model_bytes = model_bytes_};
  for (auto input = node.inputs.begin(); input != node.inputs.end(); ++input) {
    const TensorData* data = *input == no_value ? nullptr : constant(*input);
    if (data == nullptr || std::find(node.inputs.begin(), input, *input) != input) continue;
    const bool goes =
        graph_.values[*input].captured == no_value && use_count_[*input] == std::ranges::count(node.inputs, *input);
    const std::uint64_t bytes = goes ? data->bytes.size() : 0;
    from_numbers_[*input] ? void(read.removed_bytes += bytes) : read.add(*data, bytes);
  }
  return read;
}

std::vector<std::int32_t> Rewriter::users(GraphValueId id) {
  std::vector<std::int32_t>& known = users_[id];
  sort_unique(known);
  std::erase_if(known, [&](std::int32_t index) {
    const GraphNode& node = graph_.nodes[index];
    bool found = false;
    if (!node.removed) for_each_read(node, [&](GraphValueId value) { found |= value == id; });
    return !found;
  });
  return known;
}

std::optional<std::vector<std::int64_t>> Rewriter::static_dims(GraphValueId id) const {
  if (id == no_value || !graph_.values[id].dims) return std::nullopt;
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : *graph_.values[id].dims) {
    if (!dim.is_static()) return std::nullopt;
    sizes.push_back(dim.size);
  }
  return sizes;
}

GraphValueId Rewriter::constant(TensorData data, origin::NodeOrigin origin, std::string name) {
  const GraphValueId id = graph_.add_initializer(std::move(name), std::move(data), std::move(origin), false);
  use_count_.push_back(0);
  users_.emplace_back();
  is_output_.push_back(false);
  from_numbers_.push_back(false);
  return id;
}

GraphValueId Rewriter::insert(GraphNode node, DType dtype, std::optional<std::vector<Dim>> dims) {
  const GraphValueId id = new_value(dtype, std::move(dims));
  node.outputs = {id};
  add(std::move(node));
  return id;
}

GraphValueId Rewriter::new_value(DType dtype, std::optional<std::vector<Dim>> dims) {
  GraphValue value;
  value.dtype = dtype;
  value.dims = std::move(dims);
  use_count_.push_back(0);
  users_.emplace_back();
  is_output_.push_back(false);
  from_numbers_.push_back(false);
  return graph_.add_value(std::move(value));
}

void Rewriter::add(GraphNode node) {
  const std::int32_t index = graph_.add_node(std::move(node));
  queued_.push_back(false);
  add_uses(index);
  queue(index);
}

void Rewriter::replace_with(GraphValueId value, GraphNode node) {
  const DType dtype = graph_.values[value].dtype;
  replace_rewritten(value, insert(std::move(node), dtype, graph_.values[value].dims));
}

void Rewriter::replace_rewritten(GraphValueId from, GraphValueId to) {
  replace(from, to);
  graph_.values[from].rewritten_as = to;
}

void Rewriter::set_input(std::int32_t node, std::size_t position, GraphValueId value) {
  const GraphValueId before = graph_.nodes[node].inputs[position];
  if (before == value) return;
  graph_.nodes[node].inputs[position] = value;
  if (value != no_value) {
    ++use_count_[value];
    users_[value].push_back(node);
  }
  queue(node);
  if (before != no_value) drop_use(before);
}

bool Rewriter::can_replace(GraphValueId from, GraphValueId to) const {
  const GraphValue& old = graph_.values[from];
  const GraphValue& other = graph_.values[to];
  if (old.dtype != DType::undefined && other.dtype != DType::undefined && old.dtype != other.dtype) return false;
  if (!is_output_[from]) return true;
  return other.producer >= 0 && !is_output_[to];
}

void Rewriter::replace(GraphValueId from, GraphValueId to) {
  GraphValue& old = graph_.values[from];
  GraphValue& other = graph_.values[to];
  if (other.dtype == DType::undefined) other.dtype = old.dtype;
  if (!other.dims) other.dims = old.dims;
  const std::int32_t producer = old.producer;

  for (const std::int32_t user : users(from)) {
    GraphNode& node = graph_.nodes[user];
    std::ranges::replace(node.inputs, from, to);
    for_each_body(node, [&](Graph& body) {
      for (GraphValue& value : body.values) {
        if (value.captured == from) value.captured = to;
      }
    });
    users_[to].push_back(user);
    queue(user);
  }
  if (is_output_[from]) {
    std::ranges::replace(graph_.outputs, from, to);
    is_output_[from] = false;
    is_output_[to] = true;
    other.name = old.name;
    old.name.clear();
    // The declared type of a graph output contains the names of dynamic sizes.
    if (old.dims) other.dims = old.dims;
  }
  use_count_[to] += use_count_[from];
  use_count_[from] = 0;
  users_[from].clear();
  // The producer of `to` may be merged with its new users.
  if (other.producer >= 0) queue(other.producer);
  if (producer >= 0) erase_if_unused(producer);
}

void Rewriter::fold(std::int32_t node, TensorData data, std::string name) {
  const origin::NodeOrigin origin = graph_.nodes[node].origin;
  const GraphValueId output = graph_.nodes[node].outputs[0];
  const bool from_numbers = !constants_read(graph_.nodes[node]).holds_tensors;
  graph_.folded.insert(graph_.folded.end(), origin.ops.begin(), origin.ops.end());
  const GraphValueId folded = constant(std::move(data), origin, std::move(name));
  from_numbers_[folded] = from_numbers;
  replace(output, folded);
}

void Rewriter::drop_use(GraphValueId value) {
  --use_count_[value];
  const std::int32_t producer = graph_.values[value].producer;
  if (producer < 0) return;
  erase_if_unused(producer);
  // A value that is down to one user may be merged into it.
  if (use_count_[value] == 1) {
    for (const std::int32_t user : users(value)) queue(user);
  }
}

void Rewriter::erase_if_unused(std::int32_t index) {
  std::vector<std::int32_t> pending = {index};
  while (!pending.empty()) {
    GraphNode& node = graph_.nodes[pending.back()];
    pending.pop_back();
    const bool used = std::ranges::any_of(
        node.outputs, [&](GraphValueId output) { return output != no_value && use_count_[output] > 0; });
    if (used || node.removed) continue;
    node.removed = true;
    for_each_read(node, [&](GraphValueId input) {
      --use_count_[input];
      const std::int32_t producer = graph_.values[input].producer;
      if (producer >= 0 && use_count_[input] == 0) pending.push_back(producer);
      // A value that is down to one user may be merged into it.
      if (use_count_[input] == 1 && producer >= 0) {
        for (const std::int32_t user : users(input)) queue(user);
      }
    });
  }
}

std::optional<std::int32_t> Rewriter::next() {
  while (!queue_.empty()) {
    const std::int32_t index = queue_.front();
    queue_.pop_front();
    queued_[index] = false;
    if (!graph_.nodes[index].removed) return index;
  }
  return std::nullopt;
}

void Rewriter::queue(std::int32_t node) {
  if (queued_[node] || graph_.nodes[node].removed) return;
  queued_[node] = true;
  queue_.push_back(node);
}

void Rewriter::queue_all() {
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) queue(static_cast<std::int32_t>(i));
}

}  // namespace whence::simplify
