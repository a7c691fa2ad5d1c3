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

bool says(const onnx_file::OnnxNode& node, Confidence confidence) {
  return metadata_of(node, keys::confidence) == origin::name_of(confidence);
}

// A helper that whence knows to serve several modules is an input of each.
bool is_shared(const onnx_file::OnnxNode& node) {
  return metadata_of(node, keys::rule) == "shared" || metadata_of(node, keys::op).starts_with("shared:");
}

class Finder {
 public:
  Finder(const WorkGraph& graph, const std::string& path, const std::vector<CallIndex>& calls, const Region& region)
      : graph_(graph), path_(path), inside_(region.nodes.begin(), region.nodes.end()) {
    recorded_ = !calls.empty() && std::ranges::all_of(calls, [&](CallIndex call) { return is_recorded(call); });
    std::set<int> numbers;
    for (const ModuleCall& instance : graph.instances()) {
      if (instance.path == path) numbers.insert(instance.call);
    }
    called_once_ = numbers.size() < 2;
    numbered_ = path.empty() || std::ranges::any_of(inside_, [&](std::int32_t index) {
                  return onnx_file::find_property(graph.nodes()[index].node->metadata, keys::call).has_value();
                });
  }

  UnclearParts find() const {
    const std::set<std::int32_t> beside = beside_region();
    UnclearParts parts;
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const auto index = static_cast<std::int32_t>(i);
      if (inside_.contains(index)) continue;
      if (stands_for_module_too(graph_.nodes()[i]) && (called_once_ || beside.contains(index))) {
        parts.fused.push_back(described(graph_, index));
      } else if (!recorded_ && beside.contains(index) && is_undecided(graph_.nodes()[i])) {
        parts.undecided.push_back(described(graph_, index));
      }
    }
    if (!numbered_) parts.of_several_calls = of_several_calls();
    return parts;
  }

 private:
  // An operation of the call itself is known exactly: then so are all. A container has none of its own.
  bool is_recorded(CallIndex call) const {
    const Instances& instances = graph_.instances();
    std::set<CallIndex> inner;
    for (const std::int32_t index : inside_) {
      const WorkNode& node = graph_.nodes()[index];
      if (node.instance == call && says(*node.node, Confidence::exact)) return true;
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

  // Without numbers all calls of a module are one. Several show by nodes of other modules between theirs, or where each
  // of the parameters is read twice by one operator.
  std::vector<std::string> of_several_calls() const {
    const std::vector<char> known = graph_.constant_nodes();
    std::map<std::pair<ValueId, std::string_view>, int> reads;
    std::vector<std::string> between, again;
    for (const std::int32_t index : inside_) {
      const WorkNode& node = graph_.nodes()[index];
      if (known[index] != 0) continue;
      if (!is_in_module(node)) between.push_back(described(graph_, index));
      for (const ValueId id : node.reads) {
        if (graph_.value(id).initializer < 0 || graph_.value(id).name.find('.') == std::string_view::npos) continue;
        if (++reads[{id, node.node->op_type}] == 2) again.push_back(described(graph_, index));
      }
    }
    if (!between.empty()) return between;
    const bool all = std::ranges::all_of(reads, [](const auto& each) { return each.second > 1; });
    return all ? again : std::vector<std::string>();
  }

  bool stands_for_module_too(const WorkNode& node) const {
    if (is_in_module(node)) return false;  // outside of the call, so it is another call's alone
    const std::vector<std::string> modules = metadata::attribution_of(*node.node, nullptr).modules;
    return modules.size() > 1 &&
           std::ranges::any_of(modules, [&](const std::string& each) { return at_or_below(each, path_); });
  }

  bool is_undecided(const WorkNode& node) const {
    if (!node.instance.exists()) return true;
    const std::string& known = graph_.instances()[node.instance].path;
    const bool is_ancestor = metadata::attribution_of(*node.node, nullptr).confidence == Confidence::ancestor;
    return is_ancestor && !is_shared(*node.node) && at_or_below(path_, known);
  }

  // Nodes that read what the region computes or compute what it reads, other than constants.
  std::set<std::int32_t> beside_region() const {
    const std::vector<char> known = graph_.constant_nodes();
    std::set<std::int32_t> beside;
    for (const std::int32_t index : inside_) {
      for (const ValueId id : graph_.nodes()[index].reads) {
        if (const std::int32_t maker = graph_.value(id).producer; maker >= 0 && known[maker] == 0) beside.insert(maker);
      }
      if (known[index] != 0) continue;
      for (const ValueId id : graph_.nodes()[index].writes) {
        if (id >= 0) beside.insert(graph_.value(id).readers.begin(), graph_.value(id).readers.end());
      }
    }
    return beside;
  }

  const WorkGraph& graph_;
  const std::string& path_;
  const std::set<std::int32_t> inside_;
  bool recorded_ = false, called_once_ = false;
  bool numbered_ = false;  // the file says which call of its module a node is of
};

}  // namespace

UnclearParts unclear_parts(const WorkGraph& graph, const std::string& path, const std::vector<CallIndex>& calls,
                           const Region& region) {
  return Finder(graph, path, calls, region).find();
}

}  // namespace whence::functions
