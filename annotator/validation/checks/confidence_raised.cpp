// V603: a node surer than what it was derived from.
#include <algorithm>
#include <map>
#include <optional>

#include "annotator/metadata/operation_ids.h"
#include "annotator/validation/checks.h"
#include "annotator/validation/tool_edit.h"

namespace whence::validation {

using origin::Confidence;

namespace {

// Returns the weakest of the confidences that the names had; nothing where one of them had none.
std::optional<Confidence> weakest_of(const std::vector<std::string>& names, const ConfidenceOf& known) {
  std::optional<Confidence> weakest;
  for (const std::string& name : names) {
    const auto found = known.find(name);
    if (found == known.end()) return std::nullopt;
    weakest = std::max(weakest.value_or(Confidence::exact), found->second);
  }
  return weakest;
}

// A module that no node had before is one around those of several.
Confidence allowed(const metadata::Attribution& said, const ToolEdit& edit) {
  if (const auto by_operation = weakest_of(metadata::parse_ids(said.id), edit.of_operation)) return *by_operation;
  return weakest_of(said.modules, edit.of_module).value_or(Confidence::ancestor);
}

std::vector<FindingItem> find_confidence_raised(const CheckContext& context) {
  std::vector<FindingItem> items;
  const ToolEdit& edit = *context.edit;
  std::map<const onnx_file::OnnxNode*, Confidence> of_kept;
  for (const ToolEdit::Kept& kept : edit.kept) of_kept.emplace(kept.after->node, kept.before->attribution.confidence);
  for (const view::DiffNode& each : edit.after) {
    const metadata::Attribution& said = each.attribution;
    if (!said.attributed()) continue;
    const auto kept = of_kept.find(each.node);
    const Confidence limit = std::max(allowed(said, edit), kept == of_kept.end() ? Confidence::exact : kept->second);
    if (said.confidence < limit) {
      items.push_back({shown_node(*each.node), "it says " + std::string(origin::name_of(said.confidence)) +
                                                   ", and comes from " + std::string(origin::name_of(limit))});
    }
  }
  return items;
}

}  // namespace

const Check confidence_raised_check = {
    {"V603", "confidence_raised", "nodes surer than the ones they come from (rule 5)",
     "state the weakest confidence of the nodes that the node stands for",
     "The words are promises; a tool that looked at nothing else cannot know more than its input said.",
     Severity::error},
    find_confidence_raised,
    /*full=*/false,
    /*compares=*/true};

}  // namespace whence::validation
