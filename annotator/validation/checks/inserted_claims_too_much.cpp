// V608: a node that was inserted to serve others but has the entries of an operation.
#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/validation/checks.h"
#include "annotator/validation/tool_edit.h"

namespace whence::validation {

namespace keys = origin::keys;
using onnx_file::find_property;

namespace {

std::vector<FindingItem> find_inserted_claims_too_much(const CheckContext& context) {
  std::vector<FindingItem> items;
  const ToolEdit& edit = *context.edit;
  if (edit.has_no_origins()) return items;
  for (std::size_t at = 0; at < edit.after.size(); ++at) {
    const view::DiffNode& each = edit.after[at];
    if (edit.sources.by_node[at].role != Role::inserted || !each.attribution.attributed()) continue;
    std::string problem;
    for (const std::string_view key : {keys::id, keys::op, keys::modules, keys::primary}) {
      if (find_property(each.node->metadata, key)) problem = std::string("it has ").append(key);
    }
    if (problem.empty() && each.attribution.rule != "inserted")
      problem.assign(keys::rule).append(" is '").append(each.attribution.rule).append("', not 'inserted'");
    if (!problem.empty()) items.push_back({shown_node(*each.node), std::move(problem)});
  }
  return items;
}

}  // namespace

const Check inserted_claims_too_much_check = {
    {"V608", "inserted_claims_too_much", "inserted nodes with entries of the nodes that they serve (rule 6)",
     "leave out id, op and modules, and write pkg.whence.rule = inserted",
     "An inserted node computes no operation of the model, but with an identity it is counted as one.",
     Severity::error},
    find_inserted_claims_too_much,
    /*full=*/false,
    /*compares=*/true};

}  // namespace whence::validation
