// ToolEdit: a tool's input and output, for the checks V6xx of the rules in docs/metadata-spec.md. It
// contains, for each node after the tool, the nodes that it represents, and the names stated before the tool.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/origin/confidence.h"
#include "annotator/validation/node_sources.h"
#include "annotator/view/diff_nodes.h"

namespace whence::validation {

using ConfidenceOf = std::map<std::string, origin::Confidence, std::less<>>;

struct ToolEdit {
  // A node that the tool kept: same operator, and same value or same name.
  struct Kept {
    const view::DiffNode *before = nullptr, *after = nullptr;
    std::size_t at = 0;  // index of `after` in ToolEdit::after
  };

  view::DiffNodes before, after;
  std::vector<Kept> kept;  // in the order of `after`
  EditSources sources;     // of the nodes of `after`
  // By operation identity and by module, the strongest confidence of a node before.
  ConfidenceOf operation_confidence, module_confidence;
  std::set<std::string, std::less<>> known_modules;  // modules of nodes before and their ancestors
  // `whence annotate --from` or `whence carry` restored the entries after a tool that drops them, so confidences may be
  // weaker.
  bool is_reannotated = false;
  std::vector<std::string> lost_model_keys, changed_model_keys;

  // Calls visit(node) for each node before that node `at` of `after` must or may name, until a call returns true.
  // Returns true if one did.
  template <class Visit>
  bool any_source(std::size_t at, const Visit& visit) const {
    const NodeSources& node_sources = sources.by_node[at];
    const auto visit_all = [&](const std::vector<std::size_t>& nodes) {
      return std::ranges::any_of(nodes, [&](std::size_t each) { return visit(before[each]); });
    };
    return visit_all(node_sources.required) || visit_all(node_sources.alternatives) ||
           visit_all(node_sources.optional) || std::ranges::any_of(node_sources.regions, [&](std::size_t region) {
             return visit_all(sources.regions[region]);
           });
  }

  // Returns true if no node before the tool has an origin, so that none can be lost.
  bool has_no_origins() const { return module_confidence.empty(); }
};

// Both summaries must outlive the result.
ToolEdit tool_edit(const onnx_file::OnnxSummary& before, const onnx_file::OnnxSummary& after);

}  // namespace whence::validation
