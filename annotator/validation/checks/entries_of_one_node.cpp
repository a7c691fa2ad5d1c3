// V609: a new node with entries that are valid only for the node they were copied from: entries that undo an
// annotation, and the operator.
#include "annotator/origin/confidence.h"
#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/undo.h"
#include "annotator/validation/checks.h"
#include "annotator/validation/tool_edit.h"

namespace whence::validation {

namespace keys = origin::keys;
using onnx_file::find_property;

namespace {

std::string problem_of_one_node(std::size_t at, const ToolEdit& edit) {
  const view::DiffNode& each = edit.after[at];
  const bool joins = edit.sources.by_node[at].required.size() > 1;  // else it may be a renamed node
  for (const std::string_view key : {keys::kept, keys::merged, keys::original_name, keys::carry}) {
    const auto value = find_property(each.node->metadata, key);
    const auto has_it = [&](const view::DiffNode& source) {
      return find_property(source.node->metadata, key) == value;
    };
    if (joins && value && edit.any_source(at, has_it)) return std::string(key) + " is copied from another node";
  }
  if (!each.attribution.attributed() || !origin::is_of_runtime(each.node->domain)) return "";
  const auto written = find_property(each.node->metadata, keys::confidence_operator);
  const std::string own = std::string(each.node->domain).append("::").append(each.node->op_type);
  if (written == own) return "";
  return written ? std::string(keys::confidence_operator).append(" is '").append(*written).append("'")
                 : "missing " + std::string(keys::confidence_operator);
}

std::vector<FindingItem> find_entries_of_one_node(const CheckContext& context) {
  std::vector<FindingItem> items;
  const ToolEdit& edit = *context.edit;
  if (edit.has_no_origins()) return items;
  for (std::size_t at = 0; at < edit.after.size(); ++at) {
    if (edit.sources.by_node[at].role == Role::kept) continue;
    if (std::string problem = problem_of_one_node(at, edit); !problem.empty())
      items.push_back({shown_node(*edit.after[at].node), std::move(problem)});
  }
  return items;
}

}  // namespace

const Check entries_of_one_node_check = {
    {"V609", "entries_of_one_node", "new nodes with entries that are valid only for another node (rule 10)",
     "leave out kept, merged, original_name and carry; write pkg.whence.operator anew on operators of com.microsoft",
     "`whence strip` would give the node the name of another. ONNX Runtime copies metadata, so a node without its own "
     "pkg.whence.operator counts as inferred at most.",
     Severity::error},
    find_entries_of_one_node,
    /*full=*/false,
    /*compares=*/true};

}  // namespace whence::validation
