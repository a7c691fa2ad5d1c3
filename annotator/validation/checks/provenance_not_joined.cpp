// V604: nodes that replaced others but do not join their entries. They must name all modules, identities and operations
// of those nodes and no others, keep single values only if all agree, and not be less sure than all.
#include <algorithm>
#include <optional>
#include <set>

#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/origin/stamp.h"
#include "annotator/validation/checks.h"
#include "annotator/validation/stated_names.h"

namespace whence::validation {

namespace keys = origin::keys;
using onnx_file::find_property;
using origin::NodeOrigin;
using origin::OriginKind;
using view::DiffNode;

namespace {

StatedNames names_of_nodes(const std::vector<std::size_t>& nodes, const ToolEdit& edit) {
  StatedNames names;
  for (const std::size_t at : nodes) names.add_own(edit.before[at].attribution);
  return names;
}

std::string problem_of_names(std::size_t at, const ToolEdit& edit) {
  const NodeSources& node_sources = edit.sources.by_node[at];
  StatedNames stated = names_of(edit.after[at].attribution);
  if (node_sources.role == Role::kept) {
    for (const std::size_t producer : node_sources.neighbours) stated.add(edit.after[producer].attribution);
  }
  if (std::string missing = missing_from(names_of_nodes(node_sources.required, edit), stated); !missing.empty())
    return "missing " + missing;
  const auto names = [&](std::size_t source) { return missing_from(names_of_nodes({source}, edit), stated).empty(); };
  if (!node_sources.alternatives.empty() && std::ranges::none_of(node_sources.alternatives, names))
    return "missing " + missing_from(names_of_nodes({node_sources.alternatives.front()}, edit), stated);
  // V602 checks further names of kept nodes. Without a certain source no name is known to be wrong.
  if (node_sources.role == Role::kept || (node_sources.required.empty() && node_sources.alternatives.empty()))
    return "";
  const std::string more = names_without_source(at, edit);
  return more.empty() ? "" : "it names " + more + " of nodes that it does not represent";
}

std::optional<NodeOrigin> operations_of(const DiffNode& each) {
  const auto stamp = find_property(each.node->metadata, keys::op);
  return stamp ? origin::parse_stamp(*stamp) : std::nullopt;
}

std::string quoted(std::string_view key, std::string_view value) {
  return std::string(key).append(" is '").append(value).append("'");
}

// Checks rule 2 on pkg.whence.op. Accepts operation numbers of optional sources.
std::string problem_of_operations(std::size_t at, const ToolEdit& edit) {
  const NodeSources& node_sources = edit.sources.by_node[at];
  const DiffNode& each = edit.after[at];
  const auto text = find_property(each.node->metadata, keys::op);
  if (node_sources.required.empty()) return "";
  if (!text) {
    const auto lacks = [](const DiffNode& source) { return !operations_of(source); };
    return edit.any_source(at, lacks) ? "" : "missing " + std::string(keys::op);
  }
  const std::optional<NodeOrigin> stated = origin::parse_stamp(*text);
  if (!stated) return "";  // reported by V301
  std::set<std::int32_t> missing;
  std::set<std::string> values;
  bool one_shared = false;
  for (const std::size_t source : node_sources.required) {
    const auto operations = operations_of(edit.before[source]);
    if (!operations) return quoted(keys::op, *text) + ", and " + shown_node(*edit.before[source].node) + " has none";
    missing.insert(operations->ops.begin(), operations->ops.end());
    values.insert(origin::to_stamp(*operations));
    one_shared = one_shared || operations->kind == OriginKind::shared;
  }
  const std::size_t needed = missing.size();
  std::set<std::int32_t> more(stated->ops.begin(), stated->ops.end());
  for (const std::int32_t number : stated->ops) missing.erase(number);
  const bool same_operations = more.size() == needed && values.size() == 1;
  bool may_be_shared = false;
  edit.any_source(at, [&](const DiffNode& source) {
    if (const auto operations = operations_of(source)) {
      for (const std::int32_t number : operations->ops) more.erase(number);
      may_be_shared = may_be_shared || operations->kind == OriginKind::shared;
    }
    return false;
  });
  const bool has_right_kind =
      stated->kind == OriginKind::shared ? may_be_shared : stated->kind == OriginKind::fused && !one_shared;
  const bool has_right_form = same_operations
                                  ? values.contains(std::string(*text))
                                  : has_right_kind && std::ranges::is_sorted(stated->ops, std::ranges::less_equal());
  return missing.empty() && more.empty() && has_right_form ? "" : quoted(keys::op, *text);
}

bool is_single_value(std::string_view key) {
  for (const std::string_view other : {keys::module, keys::modules, keys::primary, keys::id, keys::op, keys::confidence,
                                       keys::rule, keys::confidence_operator}) {
    if (key == other) return false;
  }
  return true;
}

// Checks rule 4: finds a value that the node has from some of its sources but that other sources do not have.
std::string problem_of_single_values(std::size_t at, const ToolEdit& edit) {
  const std::vector<std::size_t>& sources = edit.sources.by_node[at].required;
  for (const auto& [key, value] : onnx_file::OnnxProperties(edit.after[at].node->metadata)) {
    if (!is_single_value(key) || (edit.is_reannotated && key == keys::evidence)) continue;
    const auto entry_of = [&](std::size_t source) { return find_property(edit.before[source].node->metadata, key); };
    if (std::ranges::none_of(sources, [&](std::size_t source) { return entry_of(source).has_value(); })) continue;
    for (const std::size_t source : sources) {
      if (entry_of(source) != value)
        return quoted(key, value) + ", which " + shown_node(*edit.before[source].node) + " does not have";
    }
  }
  return "";
}

// Checks a part of rule 5: the node must not be less sure than all its sources. V603 checks the upper limit.
std::string problem_of_confidence(std::size_t at, const ToolEdit& edit) {
  const DiffNode& each = edit.after[at];
  const auto stated = find_property(each.node->metadata, keys::confidence);
  const auto confidence = stated ? origin::parse_confidence(*stated) : std::nullopt;
  if (!confidence || edit.is_reannotated || edit.sources.by_node[at].required.empty()) return "";
  const auto is_as_weak = [&](const DiffNode& source) { return source.attribution.confidence >= *confidence; };
  return edit.any_source(at, is_as_weak) ? "" : quoted(keys::confidence, *stated) + ", but all its sources are surer";
}

std::string problem_of(std::size_t at, const ToolEdit& edit) {
  const DiffNode& each = edit.after[at];
  const NodeSources& node_sources = edit.sources.by_node[at];
  const bool states_nothing = !find_property(each.node->metadata, keys::confidence) &&
                              !find_property(each.node->metadata, keys::module);                     // reported by V601
  const bool kept_unchanged = node_sources.role == Role::kept && node_sources.required.size() == 1;  // reported by V602
  if (states_nothing || kept_unchanged || node_sources.role == Role::inserted || node_sources.role == Role::unknown)
    return "";
  if (is_unattributed(each) && (node_sources.may_represent_none || edit.any_source(at, is_unattributed))) return "";
  std::string problem = problem_of_names(at, edit);
  if (is_unattributed(each)) return problem;
  for (const auto problem_in : {problem_of_operations, problem_of_single_values, problem_of_confidence}) {
    if (problem.empty()) problem = problem_in(at, edit);
  }
  return problem;
}

// Checks that nodes that together replaced others name all of them.
std::string problem_of(const SharedWork& work, const ToolEdit& edit) {
  StatedNames stated;
  for (const std::size_t at : work.after) {
    const DiffNode& each = edit.after[at];
    const bool dropped = !find_property(each.node->metadata, keys::confidence);  // reported by V601
    if (is_unattributed(each) && (dropped || edit.any_source(at, is_unattributed))) return "";
    stated.add(each.attribution);
  }
  const std::string missing = missing_from(names_of_nodes(work.before, edit), stated);
  return missing.empty() ? "" : "missing " + missing;
}

std::vector<FindingItem> find_provenance_not_joined(const CheckContext& context) {
  std::vector<FindingItem> items;
  const ToolEdit& edit = *context.edit;
  if (edit.has_no_origins()) return items;
  std::set<std::size_t> reported;
  for (std::size_t at = 0; at < edit.after.size(); ++at) {
    if (std::string problem = problem_of(at, edit); !problem.empty()) {
      items.push_back({shown_node(*edit.after[at].node), std::move(problem)});
      reported.insert(at);
    }
  }
  for (const SharedWork& work : edit.sources.shared) {
    if (std::ranges::any_of(work.after, [&](std::size_t at) { return reported.contains(at); })) continue;
    if (std::string problem = problem_of(work, edit); !problem.empty())
      items.push_back({shown_node(*edit.after[work.after.back()].node), std::move(problem)});
  }
  return items;
}

}  // namespace

const Check provenance_not_joined_check = {
    {"V604", "provenance_not_joined", "nodes that replaced others without joining their entries (rules 2, 4 and 5)",
     "join the modules, identities and operations of all nodes that the node represents; keep a single value only if "
     "all have it",
     "Cost and errors of the fused node are attributed to only one of its modules.", Severity::error},
    find_provenance_not_joined,
    /*full=*/false,
    /*compares=*/true};

}  // namespace whence::validation
