#include "annotator/view/fusion_parts.h"

#include <algorithm>

#include "annotator/metadata/call_path.h"
#include "schema/disjoint_sets.h"
#include "schema/module_path.h"

namespace whence::view {

using metadata::Attribution;

namespace {

// A node of one of the two files: its modules, and the calls that lead to it if they are numbered.
struct Side {
  const Attribution& attribution;
  std::vector<metadata::CalledModule> way;
};

Side side_of(const DiffNode& node) {
  std::vector<metadata::CalledModule> way;
  if (!node.attribution.call.empty()) {
    way = metadata::stated_modules(*node.node);
    if (way.empty() || way.back().path != node.attribution.module) way = {{.path = node.attribution.module}};
    metadata::set_call_numbers(node.node->metadata, way);
  }
  return {node.attribution, std::move(way)};
}

// Returns true unless both nodes are inside one module, but in different calls of it.
bool may_share_calls(const Side& a, const Side& b) {
  return std::ranges::none_of(a.way, [&](const metadata::CalledModule& module) {
    const auto same = std::ranges::find(b.way, module.path, &metadata::CalledModule::path);
    return same != b.way.end() && same->call != module.call;
  });
}

bool share_a_module(const Side& a, const Side& b) {
  const std::vector<std::string>& of_b = b.attribution.modules;
  const auto in_b = [&](const std::string& module) { return std::ranges::find(of_b, module) != of_b.end(); };
  return may_share_calls(a, b) && std::ranges::any_of(a.attribution.modules, in_b);
}

// Returns true if one node's module is below the other's `ancestor`: the other may belong to any module at or below it.
bool may_share_a_module(const Side& of_a, const Side& of_b) {
  const Attribution& a = of_a.attribution;
  const Attribution& b = of_b.attribution;
  return may_share_calls(of_a, of_b) &&
         ((a.confidence == origin::Confidence::ancestor && at_or_below(b.module, a.module)) ||
          (b.confidence == origin::Confidence::ancestor && at_or_below(a.module, b.module)));
}

class Splitter {
 public:
  Splitter(const NodePairs::Fusion& fusion, const DiffNodes& a, const DiffNodes& b)
      : fusion_(fusion), a_(a), parts_(fusion.a.size() + fusion.b.size()), joined_(parts_.size(), false) {
    for (const std::size_t i : fusion.a) sides_a_.push_back(side_of(a[i]));
    for (const std::size_t k : fusion.b) sides_b_.push_back(side_of(b[k]));
  }

  std::vector<NodePairs::Fusion> parts() {
    join(share_a_module);
    join(may_share_a_module);
    join([](const Side& a, const Side& b) { return !a.attribution.attributed() || !b.attribution.attributed(); });
    join_with_readers();
    std::vector<NodePairs::Fusion> parts(parts_.size());
    for (std::size_t i = 0; i < fusion_.a.size(); ++i) parts[parts_.root(i)].a.push_back(fusion_.a[i]);
    for (std::size_t i = 0; i < fusion_.b.size(); ++i)
      parts[parts_.root(fusion_.a.size() + i)].b.push_back(fusion_.b[i]);
    std::erase_if(parts, [](const NodePairs::Fusion& part) { return part.a.empty() && part.b.empty(); });
    return parts;
  }

 private:
  // Joins related nodes if no stronger relation has joined either of them.
  template <class Related>
  void join(const Related& related) {
    const std::vector<bool> before = joined_;
    for (std::size_t i = 0; i < fusion_.a.size(); ++i) {
      for (std::size_t k = 0; k < fusion_.b.size(); ++k) {
        const std::size_t other = fusion_.a.size() + k;
        if (before[i] || before[other] || !related(sides_a_[i], sides_b_[k])) continue;
        parts_.unite(other, i);
        joined_[i] = joined_[other] = true;
      }
    }
  }

  // Joins a node that has no counterpart with its reader, which absorbed it, as a Conv absorbs a Pad.
  void join_with_readers() {
    for (std::size_t i = fusion_.a.size(); i-- > 0;) {
      if (joined_[i]) continue;
      for (std::size_t reader = i + 1; reader < fusion_.a.size() && !joined_[i]; ++reader) {
        if (!joined_[reader] || !reads(*a_[fusion_.a[reader]].node, *a_[fusion_.a[i]].node)) continue;
        parts_.unite(i, reader);
        joined_[i] = true;
      }
    }
  }

  static bool reads(const onnx_file::OnnxNode& reader, const onnx_file::OnnxNode& maker) {
    return std::ranges::any_of(reader.inputs, [&](std::string_view input) {
      return !input.empty() && std::ranges::find(maker.outputs, input) != maker.outputs.end();
    });
  }

  const NodePairs::Fusion& fusion_;
  const DiffNodes& a_;
  std::vector<Side> sides_a_, sides_b_;
  DisjointSets parts_;  // nodes of a, then those of b
  std::vector<bool> joined_;
};

}  // namespace

std::vector<NodePairs::Fusion> split_by_modules(const NodePairs::Fusion& fusion, const DiffNodes& a,
                                                const DiffNodes& b) {
  return Splitter(fusion, a, b).parts();
}

}  // namespace whence::view
