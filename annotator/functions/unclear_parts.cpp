#include "annotator/functions/unclear_parts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "annotator/functions/node_values.h"
#include "annotator/metadata/attribution.h"
#include "annotator/origin/confidence.h"
#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"
#include "schema/module_path.h"

namespace whence::functions {

using origin::Confidence;
namespace keys = origin::keys;

namespace {

bool has_confidence(const onnx_file::OnnxNode& node, Confidence confidence) {
  return metadata_of(node, keys::confidence) == origin::name_of(confidence);
}

// Returns true for a helper that serves several modules, according to whence's keys: it is an input of each.
bool is_shared(const onnx_file::OnnxNode& node) {
  return metadata_of(node, keys::rule) == "shared" || metadata_of(node, keys::op).starts_with("shared:");
}

class Finder {
 public:
  Finder(const WorkGraph& graph, const std::string& path, const std::vector<CallIndex>& calls, const Region& region)
      : graph_(graph), path_(path), inside_(region.nodes.begin(), region.nodes.end()) {
    is_recorded_ = !calls.empty() && std::ranges::all_of(calls, [&](CallIndex call) { return is_recorded(call); });
    std::set<int> numbers;
    for (const ModuleCall& instance : graph.instances()) {
      if (instance.path == path) numbers.insert(instance.call);
    }
    is_called_once_ = numbers.size() < 2;
    has_call_numbers_ = path.empty() || std::ranges::any_of(inside_, [&](std::int32_t index) {
                          return onnx_file::find_property(graph.nodes()[index].node->metadata, keys::call).has_value();
                        });
  }

  UnclearParts find() const {
    const std::set<std::int32_t> neighbours = neighbours_of_region();
    UnclearParts parts;
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const auto index = static_cast<std::int32_t>(i);
      if (inside_.contains(index)) continue;
      if (is_shared_with_module(graph_.nodes()[i]) && (is_called_once_ || neighbours.contains(index))) {
        parts.fused.push_back(node_text(graph_, index));
      } else if (!is_recorded_ && neighbours.contains(index) && is_undecided(graph_.nodes()[i])) {
        parts.undecided.push_back(node_text(graph_, index));
      }
    }
    if (!has_call_numbers_) parts.of_several_calls = of_several_calls();
    return parts;
  }

 private:
  // Returns true if an operation of the call itself is `exact`, because then all are. A container has no operations of
  // its own: it is recorded if its modules are.
  bool is_recorded(CallIndex call) const {
    const Instances& instances = graph_.instances();
    std::set<CallIndex> inner;
    for (const std::int32_t index : inside_) {
      const WorkNode& node = graph_.nodes()[index];
      if (node.instance == call && has_confidence(*node.node, Confidence::exact)) return true;
      const int depth = instances[call].depth + 1;
      if (const CallIndex child = instances.ancestor(node.instance, depth);
          child.exists() && instances[child].parent == call) {
        inner.insert(child);
      }
    }
    return is_container(instances[call]) && !inner.empty() &&
           std::ranges::all_of(inner, [&](CallIndex child) { return is_recorded(child); });
  }

  bool is_in_module(const WorkNode& node) const {
    return node.instance.exists() && at_or_below(graph_.instances()[node.instance].path, path_);
  }

  // Without call numbers all calls of a module look like one. Signs of several calls are nodes of other modules between
  // its nodes, or that operators of one type read every parameter twice.
  std::vector<std::string> of_several_calls() const {
    const std::vector<char> is_constant = graph_.constant_nodes();
    std::map<std::pair<ValueId, std::string_view>, int> reads;
    std::vector<std::string> foreign_nodes, repeated_reads;
    for (const std::int32_t index : inside_) {
      const WorkNode& node = graph_.nodes()[index];
      if (is_constant[index] != 0) continue;
      if (!is_in_module(node)) foreign_nodes.push_back(node_text(graph_, index));
      for (const ValueId id : node.reads) {
        if (graph_.value(id).initializer < 0 || graph_.value(id).name.find('.') == std::string_view::npos) continue;
        if (++reads[{id, node.node->op_type}] == 2) repeated_reads.push_back(node_text(graph_, index));
      }
    }
    if (!foreign_nodes.empty()) return foreign_nodes;
    const bool all_repeated = std::ranges::all_of(reads, [](const auto& each) { return each.second > 1; });
    return all_repeated ? repeated_reads : std::vector<std::string>();
  }

  bool is_shared_with_module(const WorkNode& node) const {
    if (is_in_module(node)) return false;  // outside of the region, so it belongs to another call only
    const std::vector<std::string> modules = metadata::attribution_of(*node.node, nullptr).modules;
    return modules.size() > 1 &&
           std::ranges::any_of(modules, [&](const std::string& each) { return at_or_below(each, path_); });
  }

  bool is_undecided(const WorkNode& node) const {
    if (!node.instance.exists()) return true;
    const std::string& known_module = graph_.instances()[node.instance].path;
    const bool is_ancestor = metadata::attribution_of(*node.node, nullptr).confidence == Confidence::ancestor;
    return is_ancestor && !is_shared(*node.node) && at_or_below(path_, known_module);
  }

  // Returns the nodes that read results of the region or produce its inputs, except constants.
  std::set<std::int32_t> neighbours_of_region() const {
    const std::vector<char> is_constant = graph_.constant_nodes();
    std::set<std::int32_t> neighbours;
    for (const std::int32_t index : inside_) {
      for (const ValueId id : graph_.nodes()[index].reads) {
        if (const std::int32_t producer = graph_.value(id).producer; producer >= 0 && is_constant[producer] == 0)
          neighbours.insert(producer);
      }
      if (is_constant[index] != 0) continue;
      for (const ValueId id : graph_.nodes()[index].writes) {
        if (id >= 0) neighbours.insert(graph_.value(id).readers.begin(), graph_.value(id).readers.end());
      }
    }
    return neighbours;
  }

  const WorkGraph& graph_;
  const std::string& path_;
  const std::set<std::int32_t> inside_;
  bool is_recorded_ = false, is_called_once_ = false;
  bool has_call_numbers_ = false;  // the file numbers the calls
};

}  // namespace

UnclearParts unclear_parts(const WorkGraph& graph, const std::string& path, const std::vector<CallIndex>& calls,
                           const Region& region) {
  return Finder(graph, path, calls, region).find();
}

}  // namespace whence::functions
