// ToolEdit: a file before a tool and after it, for the checks V6xx, which hold the tool against docs/metadata-spec.md.
// It says of each node after the tool which nodes it surely stands for, and what all nodes before said.
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
#include "annotator/validation/standing.h"
#include "annotator/view/diff_nodes.h"

namespace whence::validation {

using ConfidenceOf = std::map<std::string, origin::Confidence, std::less<>>;

struct ToolEdit {
  // A node that the tool kept: its operator, and its value or its name, are the same.
  struct Kept {
    const view::DiffNode *before = nullptr, *after = nullptr;
    std::size_t at = 0;  // the place of `after` in ToolEdit::after
  };

  view::DiffNodes before, after;
  std::vector<Kept> kept;                             // in the order of `after`
  Standings standings;                                // those of the nodes of `after`
  ConfidenceOf of_operation, of_module;               // the strongest that a node of it had before
  std::set<std::string, std::less<>> modules_around;  // modules of nodes before, and all around them
  // `whence annotate --from` or `whence carry` found the entries again after a tool that drops them: words may be
  // weaker.
  bool found_again = false;
  std::vector<std::string> lost_model_keys, changed_model_keys;

  // visit(node): each node before that a node after, `at` of `after`, must or may name, until one returns true. Returns
  // whether one did.
  template <class Visit>
  bool any_source(std::size_t at, const Visit& visit) const {
    const Standing& standing = standings.of[at];
    const auto visit_all = [&](const std::vector<std::size_t>& nodes) {
      return std::ranges::any_of(nodes, [&](std::size_t each) { return visit(before[each]); });
    };
    return visit_all(standing.must) || visit_all(standing.any_of) || visit_all(standing.may) ||
           std::ranges::any_of(standing.regions, [&](std::size_t each) { return visit_all(standings.regions[each]); });
  }

  // Nothing before the tool says where it comes from, so nothing can be lost.
  bool nothing_to_keep() const { return of_module.empty(); }
};

// Both summaries must outlive what is returned.
ToolEdit tool_edit(const onnx_file::OnnxSummary& before, const onnx_file::OnnxSummary& after);

}  // namespace whence::validation
