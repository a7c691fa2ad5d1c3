// V603: a node with a higher confidence than the nodes that it was derived from.
#include <algorithm>
#include <optional>

#include "annotator/metadata/operation_ids.h"
#include "annotator/validation/checks.h"
#include "annotator/validation/tool_edit.h"

namespace whence::validation {

using origin::Confidence;

namespace {

// Returns the weakest confidence of the names; nullopt if one of them had none.
std::optional<Confidence> weakest_of(const std::vector<std::string>& names, const ConfidenceOf& confidences) {
  std::optional<Confidence> weakest;
  for (const std::string& name : names) {
    const auto found = confidences.find(name);
    if (found == confidences.end()) return std::nullopt;
    weakest = std::max(weakest.value_or(Confidence::exact), found->second);
  }
  return weakest;
}

// Returns the limit by stated names. A module that no node before had is a common ancestor of several.
Confidence allowed(const metadata::Attribution& stated, const ToolEdit& edit) {
  if (const auto by_operation = weakest_of(metadata::parse_ids(stated.id), edit.operation_confidence))
    return *by_operation;
  return weakest_of(stated.modules, edit.module_confidence).value_or(Confidence::ancestor);
}

// Returns the limit by sources: the weakest confidence of the required sources, and the strongest confidence of the
// alternatives.
Confidence allowed_by_sources(const NodeSources& node_sources, const ToolEdit& edit) {
  Confidence limit = Confidence::exact;
  for (const std::size_t at : node_sources.required) limit = std::max(limit, edit.before[at].attribution.confidence);
  if (node_sources.alternatives.empty()) return limit;
  Confidence surest = Confidence::unattributed;
  for (const std::size_t at : node_sources.alternatives)
    surest = std::min(surest, edit.before[at].attribution.confidence);
  return std::max(limit, surest);
}

// Returns the limit of an inserted node, which has the module of a neighbour or an ancestor of several.
Confidence allowed_for_inserted(const metadata::Attribution& stated, const NodeSources& node_sources,
                                const ToolEdit& edit) {
  Confidence surest = Confidence::ancestor;
  for (const std::size_t at : node_sources.neighbours) {
    const metadata::Attribution& neighbour = edit.after[at].attribution;
    if (neighbour.modules == std::vector{stated.module}) surest = std::min(surest, neighbour.confidence);
  }
  return std::max(surest, Confidence::inferred);
}

std::vector<FindingItem> find_confidence_raised(const CheckContext& context) {
  std::vector<FindingItem> items;
  const ToolEdit& edit = *context.edit;
  if (edit.has_no_origins()) return items;
  for (std::size_t at = 0; at < edit.after.size(); ++at) {
    const metadata::Attribution& stated = edit.after[at].attribution;
    if (!stated.attributed()) continue;
    const NodeSources& node_sources = edit.sources.by_node[at];
    Confidence limit = std::max(allowed(stated, edit), allowed_by_sources(node_sources, edit));
    const bool inserted = node_sources.role == Role::inserted;
    if (inserted) limit = std::max(limit, allowed_for_inserted(stated, node_sources, edit));
    if (stated.confidence < limit) {
      items.push_back({shown_node(*edit.after[at].node),
                       "it states " + std::string(origin::name_of(stated.confidence)) +
                           (inserted ? " but was inserted: at most " : " but its sources allow at most ") +
                           std::string(origin::name_of(limit))});
    }
  }
  return items;
}

}  // namespace

const Check confidence_raised_check = {
    {"V603", "confidence_raised", "nodes with a higher confidence than their sources (rules 5 and 6)",
     "state the weakest confidence of the nodes that it represents; unattributed if one of them is",
     "A confidence is a promise; a tool without further evidence cannot promise more than its input did.",
     Severity::error},
    find_confidence_raised,
    /*full=*/false,
    /*compares=*/true};

}  // namespace whence::validation
