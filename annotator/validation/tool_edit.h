// ToolEdit: a file before a tool and after it, for the checks V6xx, which hold the tool against docs/metadata-spec.md.
// It says of each node after the tool which nodes it surely stands for, and what all nodes before said.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/origin/confidence.h"
#include "annotator/view/diff_nodes.h"
#include "annotator/view/diff_pairs.h"

namespace whence::validation {

using ConfidenceOf = std::map<std::string, origin::Confidence, std::less<>>;

struct ToolEdit {
  // A node that the tool kept: its operator, and its value or its name, are the same.
  struct Kept {
    const view::DiffNode *before = nullptr, *after = nullptr;
  };

  view::DiffNodes before, after;
  std::vector<Kept> kept;  // in the order of `after`
  std::vector<view::NodePairs::Fusion> fusions;
  std::set<const onnx_file::OnnxNode*> of_unknown;    // nodes after, that took in one of which nothing was known
  ConfidenceOf of_operation, of_module;               // the strongest that a node of it had before
  std::set<std::string, std::less<>> modules_around;  // modules of nodes before, and all around them
  std::vector<std::string> lost_model_keys;

  // Nothing before the tool says where it comes from, so nothing can be lost.
  bool nothing_to_keep() const { return of_module.empty(); }
};

// Both summaries must outlive what is returned.
ToolEdit tool_edit(const onnx_file::OnnxSummary& before, const onnx_file::OnnxSummary& after);

}  // namespace whence::validation
