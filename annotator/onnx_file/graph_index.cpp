#include "annotator/onnx_file/graph_index.h"

#include <algorithm>

namespace whence::onnx_file {

GraphIndex::GraphIndex(const OnnxGraph& outermost) {
  nodes_.reserve(outermost.nodes.size());
  outermost_.values.reserve(outermost.nodes.size() + outermost.initializers.size());
  number(outermost.nodes, -1);
  first_write_.push_back(static_cast<std::uint32_t>(writes_.size()));
  add(outermost, outermost_, -1);
}

ValueId GraphIndex::find(std::string_view name) const {
  const auto entry = outermost_.values.find(name);
  return entry == outermost_.values.end() ? no_value : entry->second;
}

std::vector<GraphIndex::Read> GraphIndex::distinct_reads() const {
  std::vector<Read> distinct;
  distinct.reserve(reads_.size());
  std::size_t first = 0;  // index into `distinct` where the current node's reads begin
  for (const Read& read : reads_) {
    if (distinct.empty() || distinct.back().node != read.node || distinct.back().result) first = distinct.size();
    const auto seen = [&](const Read& before) { return before.value == read.value; };
    const bool again =
        !read.result && std::any_of(distinct.begin() + static_cast<std::ptrdiff_t>(first), distinct.end(), seen);
    if (!again) distinct.push_back(read);
  }
  return distinct;
}

std::vector<GraphIndex::Edge> GraphIndex::edges() const {
  std::vector<Edge> edges;
  for (const Read& read : distinct_reads()) {
    const Value& value = values_[read.value];
    if (value.producer >= 0) edges.push_back({value.producer, read.node, value.name});
  }
  return edges;
}

std::vector<GraphIndex::InterfaceEdge> GraphIndex::input_edges() const {
  std::vector<InterfaceEdge> edges;
  for (const Read& read : distinct_reads()) {
    const Value& value = values_[read.value];
    if (value.input && value.producer < 0 && value.initializer < 0 && !read.result) {
      edges.push_back({value.name, read.node});
    }
  }
  return edges;
}

std::vector<GraphIndex::InterfaceEdge> GraphIndex::output_edges() const {
  std::vector<InterfaceEdge> edges;
  for (const ValueId id : outputs_) {
    if (values_[id].producer >= 0) edges.push_back({values_[id].name, values_[id].producer});
  }
  return edges;
}

void GraphIndex::number(const std::vector<OnnxNode>& nodes, std::int32_t holder) {
  for (const OnnxNode& node : nodes) {
    const auto own = static_cast<std::int32_t>(nodes_.size());
    nodes_.push_back(&node);
    holders_.push_back(holder);
    first_write_.push_back(static_cast<std::uint32_t>(writes_.size()));
    writes_.resize(writes_.size() + node.outputs.size(), no_value);
    for (const OnnxGraph& body : node.subgraphs) number(body.nodes, own);
  }
}

ValueId GraphIndex::declare(Scope& scope, std::string_view name) {
  const auto [entry, is_new] = scope.values.try_emplace(name, static_cast<ValueId>(values_.size()));
  if (is_new) values_.push_back({.name = name, .outermost = &scope == &outermost_});
  return entry->second;
}

ValueId GraphIndex::resolve(Scope& scope, std::string_view name) {
  for (Scope* at = &scope; at != nullptr; at = at->outer) {
    if (const auto found = at->values.find(name); found != at->values.end()) return found->second;
  }
  return declare(outermost_, name);
}

void GraphIndex::add(const OnnxGraph& graph, Scope& scope, std::int32_t holder) {
  for (std::size_t i = 0; i < graph.initializers.size(); ++i) {
    values_[declare(scope, graph.initializers[i].name)].initializer = static_cast<std::int32_t>(i);
  }
  for (const OnnxValue& input : graph.inputs) values_[declare(scope, input.name)].input = holder < 0;
  // Declares all outputs before resolving inputs: nodes may be in any order.
  std::int32_t number = next_;
  for (const OnnxNode& node : graph.nodes) {
    while (nodes_[number] != &node) ++number;
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k].empty()) continue;
      const ValueId id = declare(scope, node.outputs[k]);
      writes_[first_write_[number] + k] = id;
      values_[id].producer = number;
    }
  }
  for (const OnnxNode& node : graph.nodes) {
    const std::int32_t own = next_++;
    for (const std::string_view input : node.inputs) {
      if (!input.empty()) reads_.push_back({resolve(scope, input), own});
    }
    for (const OnnxGraph& body : node.subgraphs) {
      Scope inner{&scope};
      add(body, inner, own);
    }
  }
  for (const OnnxValue& output : graph.outputs) {
    const ValueId id = resolve(scope, output.name);
    if (holder >= 0) {
      reads_.push_back({id, holder, true});
    } else {
      values_[id].output = true;
      outputs_.push_back(id);
    }
  }
}

}  // namespace whence::onnx_file
