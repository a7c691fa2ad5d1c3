// V601: a node that states no origin, after a tool whose input stated origins.
#include <map>
#include <set>

#include "annotator/origin/keys/origin.h"
#include "annotator/validation/checks.h"
#include "annotator/validation/tool_edit.h"

namespace whence::validation {

using onnx_file::find_property;

namespace {

std::vector<FindingItem> find_provenance_dropped(const CheckContext& context) {
  std::vector<FindingItem> items;
  const ToolEdit& edit = *context.edit;
  if (edit.has_no_origins()) return items;
  std::set<const onnx_file::OnnxNode*> unattributed_before;
  std::map<const onnx_file::OnnxNode*, std::string> module_before;
  for (const ToolEdit::Kept& kept : edit.kept) {
    if (!kept.before->attribution.attributed()) unattributed_before.insert(kept.after->node);
    module_before.emplace(kept.after->node, kept.before->attribution.module);
  }
  for (const view::DiffNode& each : edit.after) {
    const onnx_file::OnnxNode& node = *each.node;
    if (find_property(node.metadata, origin::keys::confidence) || find_property(node.metadata, origin::keys::module) ||
        unattributed_before.contains(&node))
      continue;
    const auto before = module_before.find(&node);
    std::string detail = "the tool added it";
    if (before != module_before.end()) detail.assign("its module was '").append(before->second).append("'");
    items.push_back({shown_node(node), std::move(detail)});
  }
  return items;
}

}  // namespace

const Check provenance_dropped_check = {
    {"V601", "provenance_dropped", "nodes that state no origin (rules 1 and 6)",
     "copy the entries of the nodes that it replaces; a node that serves no other node states unattributed",
     "A reader cannot distinguish a node that the tool forgot from a node of unknown origin.", Severity::error},
    find_provenance_dropped,
    /*full=*/false,
    /*compares=*/true};

}  // namespace whence::validation
