// V603: a node surer than what it was derived from.
#include <algorithm>
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

// A node of several others is no surer than the least sure of them; one that does the work of one of several, than the
// surest of those.
Confidence allowed_by_sources(const Standing& standing, const ToolEdit& edit) {
  Confidence limit = Confidence::exact;
  for (const std::size_t at : standing.must) limit = std::max(limit, edit.before[at].attribution.confidence);
  if (standing.any_of.empty()) return limit;
  Confidence surest = Confidence::unattributed;
  for (const std::size_t at : standing.any_of) surest = std::min(surest, edit.before[at].attribution.confidence);
  return std::max(limit, surest);
}

// An inserted node is of the module of a neighbour, or of one around several.
Confidence allowed_for_inserted(const metadata::Attribution& said, const Standing& standing, const ToolEdit& edit) {
  Confidence surest = Confidence::ancestor;
  for (const std::size_t at : standing.neighbours) {
    const metadata::Attribution& neighbour = edit.after[at].attribution;
    if (neighbour.modules == std::vector{said.module}) surest = std::min(surest, neighbour.confidence);
  }
  return std::max(surest, Confidence::inferred);
}

std::vector<FindingItem> find_confidence_raised(const CheckContext& context) {
  std::vector<FindingItem> items;
  const ToolEdit& edit = *context.edit;
  if (edit.nothing_to_keep()) return items;
  for (std::size_t at = 0; at < edit.after.size(); ++at) {
    const metadata::Attribution& said = edit.after[at].attribution;
    if (!said.attributed()) continue;
    const Standing& standing = edit.standings.of[at];
    Confidence limit = std::max(allowed(said, edit), allowed_by_sources(standing, edit));
    const bool inserted = standing.role == Role::inserted;
    if (inserted) limit = std::max(limit, allowed_for_inserted(said, standing, edit));
    if (said.confidence < limit) {
      items.push_back(
          {shown_node(*edit.after[at].node), "it says " + std::string(origin::name_of(said.confidence)) +
                                                 (inserted ? ", and was inserted: at most " : ", and comes from ") +
                                                 std::string(origin::name_of(limit))});
    }
  }
  return items;
}

}  // namespace

const Check confidence_raised_check = {
    {"V603", "confidence_raised", "nodes surer than the ones they come from (rules 5 and 6)",
     "state the weakest confidence of the nodes that the node stands for; unattributed if one is",
     "The words are promises; a tool that looked at nothing else cannot know more than its input said.",
     Severity::error},
    find_confidence_raised,
    /*full=*/false,
    /*compares=*/true};

}  // namespace whence::validation
