#include "annotator/functions/work_graph.h"

#include <numeric>
#include <queue>
#include <unordered_set>
#include <utility>

#include "schema/result.h"

namespace whence::functions {

using onnx_file::no_value;
using onnx_file::OnnxNode;
using onnx_file::OnnxTensor;
using onnx_file::OnnxValue;

WorkGraph::WorkGraph(ModelParts& parts, bool with_calls) : parts_(parts), node_calls_(parts.graph.nodes.size()) {
  if (with_calls) {
    std::vector<const OnnxNode*> nodes;
    for (const OnnxNode& node : parts.graph.nodes) nodes.push_back(&node);
    instances_ = Instances(nodes);
    for (std::size_t i = 0; i < nodes.size(); ++i) node_calls_[i] = instances_.call_of_node(i);
  }
  index();
  for (const WorkValue& value : values_) {
    if (value.initializer < 0) continue;
    was_read_.resize(std::max(was_read_.size(), static_cast<std::size_t>(value.initializer) + 1), 0);
    was_read_[value.initializer] = value.readers.empty() ? 0 : 1;
  }
}

void WorkGraph::index() {
  index_.emplace(parts_.graph);
  fill_nodes_and_values();
  require_single_producers();
  const std::vector<std::int32_t> order = sorted();
  if (std::ranges::is_sorted(order)) return;
  reorder(order);
  index_.emplace(parts_.graph);
  fill_nodes_and_values();
}

// Fills nodes and values of the outermost graph from the index. Reads in bodies count as reads of the node around them.
void WorkGraph::fill_nodes_and_values() {
  const std::size_t count = parts_.graph.nodes.size();
  const auto& all = index_->nodes();
  std::vector<std::int32_t> outer(all.size());  // by node of the file: the outermost node around it, or itself
  std::int32_t next = -1;
  nodes_.assign(count, {});
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto node = static_cast<std::int32_t>(i);
    if (index_->holder(node) < 0) {
      ++next;
      nodes_[next] = {all[i], node_calls_[next], {}, index_->writes(node)};
    }
    outer[i] = next;
  }
  values_.clear();
  values_.reserve(index_->values().size());
  for (const onnx_file::GraphIndex::Value& value : index_->values()) {
    const bool is_outermost = value.outermost;
    values_.push_back({value.name,
                       is_outermost && value.producer >= 0 ? outer[value.producer] : -1,
                       is_outermost ? value.initializer : -1,
                       value.input,
                       value.output,
                       {}});
  }
  // Reads and readers are spans of two lists, which have their full size before spans are made.
  std::vector<std::size_t> first_read(count + 1, 0), first_reader(values_.size() + 1, 0);
  reads_.clear();
  std::int32_t current = -1;
  for (const auto& read : index_->reads()) {
    for (; current < outer[read.node]; ++current) first_read[current + 1] = reads_.size();
    if (!index_->values()[read.value].outermost) continue;
    if (std::find(reads_.begin() + static_cast<std::ptrdiff_t>(first_read[current]), reads_.end(), read.value) !=
        reads_.end()) {
      continue;
    }
    reads_.push_back(read.value);
    ++first_reader[read.value + 1];
  }
  for (; current < static_cast<std::int32_t>(count); ++current) first_read[current + 1] = reads_.size();
  std::partial_sum(first_reader.begin(), first_reader.end(), first_reader.begin());
  readers_.assign(reads_.size(), -1);
  std::vector<std::size_t> filled(first_reader.begin(), first_reader.end());
  for (std::size_t i = 0; i < count; ++i) {
    nodes_[i].reads = std::span(reads_).subspan(first_read[i], first_read[i + 1] - first_read[i]);
    for (const ValueId id : nodes_[i].reads) readers_[filled[id]++] = static_cast<std::int32_t>(i);
  }
  for (std::size_t id = 0; id < values_.size(); ++id) {
    values_[id].readers = std::span(readers_).subspan(first_reader[id], first_reader[id + 1] - first_reader[id]);
  }
}

// Throws if a value has two producers: only one would be recorded, and readers could be sorted before it.
void WorkGraph::require_single_producers() const {
  std::vector<char> produced(values_.size(), 0);
  for (const WorkNode& node : nodes_) {
    for (const ValueId id : node.writes) {
      if (id == no_value || !std::exchange(produced[id], 1)) continue;
      throw Error(Code::corrupt_file, "two nodes produce the value '" + std::string(values_[id].name) + "'",
                  "`whence validate --full` lists all defects; export the file again",
                  {.file = parts_.path, .stage = "read"});
    }
  }
}

// Returns the nodes in topological order. Among nodes that are ready, the first in the file comes first.
std::vector<std::int32_t> WorkGraph::sorted() const {
  std::vector<std::int32_t> missing_inputs(nodes_.size(), 0), order;
  std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const ValueId id : nodes_[i].reads) missing_inputs[i] += values_[id].producer >= 0 ? 1 : 0;
    if (missing_inputs[i] == 0) ready.push(static_cast<std::int32_t>(i));
  }
  while (!ready.empty()) {
    const std::int32_t next = ready.top();
    ready.pop();
    order.push_back(next);
    for (const ValueId id : nodes_[next].writes) {
      if (id == no_value) continue;
      for (const std::int32_t reader : values_[id].readers) {
        if (--missing_inputs[reader] == 0) ready.push(reader);
      }
    }
  }
  if (order.size() != nodes_.size()) {
    throw Error(Code::corrupt_file, "the nodes of the graph form a cycle", "export the model again",
                {.file = parts_.path, .stage = "read"});
  }
  return order;
}

void WorkGraph::reorder(const std::vector<std::int32_t>& order) {
  std::vector<OnnxNode> nodes;
  std::vector<CallIndex> instances;
  nodes.reserve(order.size()), instances.reserve(order.size());
  for (const std::int32_t i : order) {
    nodes.push_back(std::move(parts_.graph.nodes[i]));
    instances.push_back(node_calls_[i]);
  }
  parts_.graph.nodes = std::move(nodes);
  node_calls_ = std::move(instances);
}

const OnnxTensor* WorkGraph::constant(ValueId id) const {
  const WorkValue& value = values_[id];
  if (value.input) return nullptr;  // a default that callers may override
  if (value.initializer >= 0) {
    const OnnxTensor& tensor = parts_.graph.initializers[value.initializer];
    return is_small(tensor) ? &tensor : nullptr;
  }
  if (value.producer < 0) return nullptr;
  const OnnxNode& node = *nodes_[value.producer].node;
  if (node.op_type != "Constant" || !node.domain.empty() || node.tensors.size() != 1) return nullptr;
  const bool has_value =
      std::ranges::any_of(node.attributes, [](const auto& attribute) { return attribute.name == "value"; });
  return has_value && node.tensors.front().message.size() <= max_small_tensor_bytes ? &node.tensors.front() : nullptr;
}

std::vector<char> WorkGraph::constant_nodes() const {
  std::vector<char> constant(nodes_.size(), 0);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    constant[i] = std::ranges::all_of(nodes_[i].reads, [&](ValueId id) {
      const WorkValue& value = values_[id];
      return !value.input && (value.initializer >= 0 || (value.producer >= 0 && constant[value.producer] != 0));
    });
  }
  return constant;
}

void WorkGraph::replace(const std::vector<Replacement>& replacements) {
  std::vector<std::int32_t> replacement_of(nodes_.size(), -1);
  for (std::size_t i = 0; i < replacements.size(); ++i) {
    for (const std::int32_t node : replacements[i].nodes) replacement_of[node] = static_cast<std::int32_t>(i);
  }
  std::vector<OnnxNode> nodes;
  std::vector<CallIndex> instances;
  std::vector<bool> is_inserted(replacements.size(), false);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (replacement_of[i] < 0) {
      nodes.push_back(std::move(parts_.graph.nodes[i]));
      instances.push_back(node_calls_[i]);
    } else if (!is_inserted[replacement_of[i]]) {  // at the first node; index() moves it after its producers
      is_inserted[replacement_of[i]] = true;
      nodes.push_back(parts_.node(replacements[replacement_of[i]].replacement));
      instances.push_back(replacements[replacement_of[i]].instance);
    }
  }
  parts_.graph.nodes = std::move(nodes);
  node_calls_ = std::move(instances);
  index();
}

void WorkGraph::drop_unread() {
  std::unordered_set<std::string_view> existing_names;
  for (const OnnxValue& input : parts_.graph.inputs) existing_names.insert(input.name);
  std::vector<OnnxTensor> kept;
  for (std::size_t i = 0; i < parts_.graph.initializers.size(); ++i) {
    OnnxTensor& tensor = parts_.graph.initializers[i];
    const WorkValue& value = values_[find(tensor.name)];
    if (was_read_[value.initializer] != 0 && value.readers.empty() && !value.output && !value.input) continue;
    existing_names.insert(tensor.name);
    kept.push_back(std::move(tensor));
  }
  parts_.graph.initializers = std::move(kept);
  for (const OnnxNode& node : parts_.graph.nodes) existing_names.insert(node.outputs.begin(), node.outputs.end());
  std::erase_if(parts_.graph.value_info, [&](const OnnxValue& value) { return !existing_names.contains(value.name); });
}

}  // namespace whence::functions
