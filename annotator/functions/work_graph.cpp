#include "annotator/functions/work_graph.h"

#include <queue>
#include <set>

#include "annotator/functions/node_values.h"
#include "schema/result.h"

namespace whence::functions {
WorkGraph::WorkGraph(ModelParts& parts) : parts_(parts), instances_(parts.model.graph().node()) {
  onnx::GraphProto& graph = *parts_.model.mutable_graph();
  for (std::size_t i = 0; i < parts_.initializers.size(); ++i) {
    values_[intern(parts_.initializers[i].header.name())].initializer = static_cast<std::int32_t>(i);
  }
  for (const onnx::ValueInfoProto& input : graph.input()) values_[intern(input.name())].input = true;
  for (const onnx::ValueInfoProto& output : graph.output()) values_[intern(output.name())].output = true;
  nodes_.reserve(graph.node_size());
  for (int i = 0; i < graph.node_size(); ++i) add(std::move(*graph.mutable_node(i)), instances_.of_node(i));
  graph.clear_node();
  index();
  for (WorkValue& value : values_) value.was_read = !value.readers.empty();
}

WorkValueId WorkGraph::intern(const std::string& name) {
  const auto [entry, is_new] = ids_.try_emplace(name, static_cast<WorkValueId>(values_.size()));
  if (is_new) values_.emplace_back().name = name;
  return entry->second;
}

WorkValueId WorkGraph::find(const std::string& name) const {
  const auto entry = ids_.find(name);
  return entry == ids_.end() ? -1 : entry->second;
}

void WorkGraph::add(onnx::NodeProto node, InstanceId instance) {
  WorkNode added{std::move(node), instance, {}, {}};
  for (const std::string& name : values_read(added.node)) added.reads.push_back(intern(name));
  for (const std::string& name : added.node.output()) added.writes.push_back(name.empty() ? -1 : intern(name));
  nodes_.push_back(std::move(added));
}

// Nodes keep their order as far as the flow of values allows.
void WorkGraph::index() {
  for (WorkValue& value : values_) value.producer = -1, value.readers.clear();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const WorkValueId id : nodes_[i].writes) {
      if (id >= 0) values_[id].producer = static_cast<std::int32_t>(i);
    }
  }
  std::vector<std::int32_t> waits(nodes_.size(), 0), place(nodes_.size(), -1);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const WorkValueId id : nodes_[i].reads) {
      values_[id].readers.push_back(static_cast<std::int32_t>(i));
      if (values_[id].producer >= 0) ++waits[i];
    }
  }
  std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (waits[i] == 0) ready.push(static_cast<std::int32_t>(i));
  }
  std::vector<WorkNode> sorted;
  sorted.reserve(nodes_.size());
  while (!ready.empty()) {
    const std::int32_t next = ready.top();
    ready.pop();
    place[next] = static_cast<std::int32_t>(sorted.size());
    for (const WorkValueId id : nodes_[next].writes) {
      if (id < 0) continue;
      for (const std::int32_t reader : values_[id].readers) {
        if (--waits[reader] == 0) ready.push(reader);
      }
    }
    sorted.push_back(std::move(nodes_[next]));
  }
  if (sorted.size() != nodes_.size()) {
    throw Error(Code::corrupt_file, "the nodes of the graph read each other's results in a circle",
                "export the model again", {.file = parts_.path, .stage = "read"});
  }
  nodes_ = std::move(sorted);
  for (WorkValue& value : values_) {
    if (value.producer >= 0) value.producer = place[value.producer];
    for (std::int32_t& reader : value.readers) reader = place[reader];
  }
}

const onnx::TensorProto* WorkGraph::constant(WorkValueId id) const {
  if (const auto known = constants_.find(id); known != constants_.end()) return &known->second;
  const WorkValue& value = values_[id];
  if (value.input) return nullptr;  // a default, which callers may override
  if (value.initializer >= 0) {
    const StoredTensor& tensor = parts_.initializers[value.initializer];
    if (!tensor.small()) return nullptr;
    return &(constants_[id] = tensor.whole());
  }
  if (value.producer < 0) return nullptr;
  const onnx::NodeProto& node = nodes_[value.producer].node;
  if (node.op_type() != "Constant" || !node.domain().empty()) return nullptr;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == "value" && attribute.has_t() && attribute.t().ByteSizeLong() <= small_tensor) {
      return &attribute.t();
    }
  }
  return nullptr;
}

std::vector<char> WorkGraph::constant_nodes() const {
  std::vector<char> constant(nodes_.size(), 0);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    constant[i] = std::ranges::all_of(nodes_[i].reads, [&](WorkValueId id) {
      const WorkValue& value = values_[id];
      return !value.input && (value.initializer >= 0 || (value.producer >= 0 && constant[value.producer] != 0));
    });
  }
  return constant;
}

void WorkGraph::replace(std::vector<Replacement> replacements) {
  std::vector<std::int32_t> by(nodes_.size(), -1);
  for (std::size_t i = 0; i < replacements.size(); ++i) {
    for (const std::int32_t node : replacements[i].nodes) by[node] = static_cast<std::int32_t>(i);
  }
  std::vector<WorkNode> before = std::move(nodes_);
  nodes_.clear();
  std::set<std::int32_t> placed;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (by[i] < 0) {
      nodes_.push_back(std::move(before[i]));
    } else if (placed.insert(by[i]).second) {  // where its first node was; index() moves it behind what it reads
      add(std::move(replacements[by[i]].by), replacements[by[i]].instance);
    }
  }
  index();
}

void WorkGraph::put_back() {
  onnx::GraphProto& graph = *parts_.model.mutable_graph();
  std::set<std::string> there;
  for (const onnx::ValueInfoProto& input : graph.input()) there.insert(input.name());
  std::vector<StoredTensor> kept;
  for (StoredTensor& tensor : parts_.initializers) {
    const std::string& name = tensor.header.name();
    const WorkValue& value = values_[ids_.at(name)];
    if (value.was_read && value.readers.empty() && !value.output && !value.input) continue;
    there.insert(name);
    kept.push_back(std::move(tensor));
  }
  parts_.initializers = std::move(kept);
  for (WorkNode& node : nodes_) {
    there.insert(node.node.output().begin(), node.node.output().end());
    *graph.add_node() = std::move(node.node);
  }
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> types;
  for (onnx::ValueInfoProto& value : *graph.mutable_value_info()) {
    if (there.contains(value.name())) *types.Add() = std::move(value);
  }
  graph.mutable_value_info()->Swap(&types);
}

}  // namespace whence::functions
