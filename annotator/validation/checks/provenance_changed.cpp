// V602: a node that the tool kept, and whose entries it did not.
#include <algorithm>

#include "annotator/metadata/operation_ids.h"
#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/validation/checks.h"
#include "annotator/validation/tool_edit.h"

namespace whence::validation {

namespace keys = origin::keys;
using onnx_file::find_property;
using onnx_file::OnnxNode;

namespace {

// Returns true if `some` are all among `all`.
bool includes(const std::vector<std::string>& all, const std::vector<std::string>& some) {
  return std::ranges::all_of(some, [&](const std::string& each) { return std::ranges::find(all, each) != all.end(); });
}

std::string was_said(std::string_view key, std::string_view value) {
  return std::string(key).append(" was '").append(value).append("'");
}

std::string change_of_single(const OnnxNode& before, const OnnxNode& after) {
  for (const std::string_view key : {keys::call, keys::calls, keys::scopes, keys::source, keys::op}) {
    const auto was = find_property(before.metadata, key);
    if (was && was != find_property(after.metadata, key)) return was_said(key, *was);
  }
  return "";
}

std::string change_of(const view::DiffNode& before, const view::DiffNode& after) {
  const metadata::Attribution &was = before.attribution, &is = after.attribution;
  if (!find_property(after.node->metadata, keys::confidence)) return "";  // V601
  const auto ids = metadata::parse_ids(is.id), ids_before = metadata::parse_ids(was.id);
  if (!is.attributed() || !includes(is.modules, was.modules)) return was_said(keys::module, was.module);
  if (!includes(ids, ids_before)) return was_said(keys::id, was.id);
  return is.modules == was.modules && ids == ids_before ? change_of_single(*before.node, *after.node) : "";
}

std::vector<FindingItem> find_provenance_changed(const CheckContext& context) {
  std::vector<FindingItem> items;
  for (const ToolEdit::Kept& kept : context.edit->kept) {
    const bool may_say_less =
        !kept.after->attribution.attributed() && context.edit->of_unknown.contains(kept.after->node);
    if (!kept.before->attribution.attributed() || may_say_less) continue;
    if (std::string problem = change_of(*kept.before, *kept.after); !problem.empty())
      items.push_back({shown_node(*kept.after->node), std::move(problem)});
  }
  return items;
}

}  // namespace

const Check provenance_changed_check = {
    {"V602", "provenance_changed", "nodes that the tool kept with other entries (rule 1)",
     "leave the entries of a node as they are; add to modules and id what the node took in",
     "The node still does what it did, and now is said to come from somewhere else.", Severity::error},
    find_provenance_changed,
    /*full=*/false,
    /*compares=*/true};

}  // namespace whence::validation
