// V604: nodes that took the place of several, without the modules or identities of all of those.
#include <set>

#include "annotator/metadata/operation_ids.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/validation/checks.h"
#include "annotator/validation/tool_edit.h"

namespace whence::validation {

namespace {

using NamesSaid = std::set<std::string>;

struct Said {
  NamesSaid ids, modules;

  void add(const metadata::Attribution& attribution) {
    const auto all = metadata::parse_ids(attribution.id);
    ids.insert(all.begin(), all.end());
    modules.insert(attribution.modules.begin(), attribution.modules.end());
  }
};

std::string missing_from(const NamesSaid& all, const NamesSaid& names) {
  std::string text;
  for (const std::string& name : all) {
    if (!names.contains(name)) text.append(text.empty() ? "'" : ", '").append(name).append("'");
  }
  return text;
}

// Helpers, of which only a module around is known, have no module of their own to hand on.
Said said_before(const view::NodePairs::Fusion& fusion, const ToolEdit& edit) {
  Said said;
  for (const std::size_t at : fusion.a) {
    const metadata::Attribution& attribution = edit.before[at].attribution;
    if (attribution.confidence < origin::Confidence::ancestor) said.add(attribution);
  }
  return said;
}

std::vector<FindingItem> find_provenance_not_joined(const CheckContext& context) {
  std::vector<FindingItem> items;
  const ToolEdit& edit = *context.edit;
  for (const view::NodePairs::Fusion& fusion : edit.fusions) {
    Said after;
    for (const std::size_t at : fusion.b) after.add(edit.after[at].attribution);
    const onnx_file::OnnxNode& last = *edit.after[fusion.b.back()].node;
    const bool says_nothing = !onnx_file::find_property(last.metadata, origin::keys::confidence);  // V601
    if (after.modules.empty() && (says_nothing || edit.of_unknown.contains(&last))) continue;
    const Said before = said_before(fusion, edit);
    std::string missing = missing_from(before.modules, after.modules);
    if (missing.empty()) missing = missing_from(before.ids, after.ids);
    if (!missing.empty()) items.push_back({shown_node(last), "it lacks " + missing});
  }
  return items;
}

}  // namespace

const Check provenance_not_joined_check = {
    {"V604", "provenance_not_joined", "nodes that replaced others and do not name all of them (rule 2)",
     "join the modules and the identities of all nodes that the node stands for",
     "What the fused node costs or breaks is laid to one of its modules alone.", Severity::error},
    find_provenance_not_joined,
    /*full=*/false,
    /*compares=*/true};

}  // namespace whence::validation
