// V604: nodes that took the place of others, and do not say what those said: all modules, identities and operations, no
// others, of single values only what all agree on; or are less sure than all.
#include <algorithm>
#include <optional>
#include <set>

#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/origin/stamp.h"
#include "annotator/validation/checks.h"
#include "annotator/validation/names_said.h"

namespace whence::validation {

namespace keys = origin::keys;
using onnx_file::find_property;
using origin::NodeOrigin;
using origin::OriginKind;
using view::DiffNode;

namespace {

NamesSaid names_of_nodes(const std::vector<std::size_t>& nodes, const ToolEdit& edit) {
  NamesSaid names;
  for (const std::size_t at : nodes) names.add_own(edit.before[at].attribution);
  return names;
}

std::string problem_of_names(std::size_t at, const ToolEdit& edit) {
  const Standing& standing = edit.standings.of[at];
  NamesSaid said = names_of(edit.after[at].attribution);
  if (standing.role == Role::kept) {
    for (const std::size_t producer : standing.neighbours) said.add(edit.after[producer].attribution);
  }
  if (std::string missing = missing_from(names_of_nodes(standing.must, edit), said); !missing.empty())
    return "it lacks " + missing;
  const auto names = [&](std::size_t source) { return missing_from(names_of_nodes({source}, edit), said).empty(); };
  if (!standing.any_of.empty() && std::ranges::none_of(standing.any_of, names))
    return "it lacks " + missing_from(names_of_nodes({standing.any_of.front()}, edit), said);
  // V602 looks at what kept nodes name besides; where nothing is sure to stand behind the node, nothing is known.
  if (standing.role == Role::kept || (standing.must.empty() && standing.any_of.empty())) return "";
  const std::string more = named_beside_sources(at, edit);
  return more.empty() ? "" : "it names " + more + ", of nodes that it does not stand for";
}

std::optional<NodeOrigin> operations_of(const DiffNode& each) {
  const auto stamp = find_property(each.node->metadata, keys::op);
  return stamp ? origin::parse_stamp(*stamp) : std::nullopt;
}

std::string quoted(std::string_view key, std::string_view value) {
  return std::string(key).append(" is '").append(value).append("'");
}

// Rule 2 on pkg.whence.op. Numbers of nodes that the node may stand for, and need not, are allowed.
std::string problem_of_operations(std::size_t at, const ToolEdit& edit) {
  const Standing& standing = edit.standings.of[at];
  const DiffNode& each = edit.after[at];
  const auto text = find_property(each.node->metadata, keys::op);
  if (standing.must.empty()) return "";
  if (!text) {
    const auto lacks = [](const DiffNode& source) { return !operations_of(source); };
    return edit.any_source(at, lacks) ? "" : "it lacks " + std::string(keys::op);
  }
  const std::optional<NodeOrigin> said = origin::parse_stamp(*text);
  if (!said) return "";  // V301
  std::set<std::int32_t> missing;
  std::set<std::string> values;
  bool one_shared = false;
  for (const std::size_t source : standing.must) {
    const auto operations = operations_of(edit.before[source]);
    if (!operations) return quoted(keys::op, *text) + ", and " + shown_node(*edit.before[source].node) + " has none";
    missing.insert(operations->ops.begin(), operations->ops.end());
    values.insert(origin::to_stamp(*operations));
    one_shared = one_shared || operations->kind == OriginKind::shared;
  }
  const std::size_t needed = missing.size();
  std::set<std::int32_t> more(said->ops.begin(), said->ops.end());
  for (const std::int32_t number : said->ops) missing.erase(number);
  const bool as_before = more.size() == needed && values.size() == 1;
  bool may_be_shared = false;
  edit.any_source(at, [&](const DiffNode& source) {
    if (const auto operations = operations_of(source)) {
      for (const std::int32_t number : operations->ops) more.erase(number);
      may_be_shared = may_be_shared || operations->kind == OriginKind::shared;
    }
    return false;
  });
  const bool right_kind =
      said->kind == OriginKind::shared ? may_be_shared : said->kind == OriginKind::fused && !one_shared;
  const bool right_form = as_before ? values.contains(std::string(*text))
                                    : right_kind && std::ranges::is_sorted(said->ops, std::ranges::less_equal());
  return missing.empty() && more.empty() && right_form ? "" : quoted(keys::op, *text);
}

bool is_single_value(std::string_view key) {
  for (const std::string_view other :
       {keys::module, keys::modules, keys::id, keys::op, keys::confidence, keys::rule, keys::confidence_operator}) {
    if (key == other) return false;
  }
  return true;
}

// Rule 4: a value that a node has of some of those it stands for, and that others do not have.
std::string problem_of_single_values(std::size_t at, const ToolEdit& edit) {
  const std::vector<std::size_t>& sources = edit.standings.of[at].must;
  for (const auto& [key, value] : onnx_file::OnnxProperties(edit.after[at].node->metadata)) {
    if (!is_single_value(key) || (edit.found_again && key == keys::evidence)) continue;
    const auto said_by = [&](std::size_t source) { return find_property(edit.before[source].node->metadata, key); };
    if (std::ranges::none_of(sources, [&](std::size_t source) { return said_by(source).has_value(); })) continue;
    for (const std::size_t source : sources) {
      if (said_by(source) != value)
        return quoted(key, value) + ", which " + shown_node(*edit.before[source].node) + " does not say";
    }
  }
  return "";
}

// Rule 5: no surer than the weakest, and no less sure than all.
std::string problem_of_confidence(std::size_t at, const ToolEdit& edit) {
  const DiffNode& each = edit.after[at];
  const auto stated = find_property(each.node->metadata, keys::confidence);
  const auto confidence = stated ? origin::parse_confidence(*stated) : std::nullopt;
  if (!confidence || edit.found_again || edit.standings.of[at].must.empty()) return "";
  const auto is_as_weak = [&](const DiffNode& source) { return source.attribution.confidence >= *confidence; };
  return edit.any_source(at, is_as_weak) ? ""
                                         : quoted(keys::confidence, *stated) + ", and all that it stands for are surer";
}

std::string problem_of(std::size_t at, const ToolEdit& edit) {
  const DiffNode& each = edit.after[at];
  const Standing& standing = edit.standings.of[at];
  const bool says_nothing = !find_property(each.node->metadata, keys::confidence) &&
                            !find_property(each.node->metadata, keys::module);       // V601
  const bool kept_alone = standing.role == Role::kept && standing.must.size() == 1;  // V602
  if (says_nothing || kept_alone || standing.role == Role::inserted || standing.role == Role::unknown) return "";
  if (is_unknown(each) && (standing.may_serve_none || edit.any_source(at, is_unknown))) return "";
  std::string problem = problem_of_names(at, edit);
  if (is_unknown(each)) return problem;
  for (const auto problem_in : {problem_of_operations, problem_of_single_values, problem_of_confidence}) {
    if (problem.empty()) problem = problem_in(at, edit);
  }
  return problem;
}

// Nodes that share the work of others, and leave a part of it out.
std::string problem_of(const SharedWork& work, const ToolEdit& edit) {
  NamesSaid said;
  for (const std::size_t at : work.after) {
    const DiffNode& each = edit.after[at];
    const bool dropped = !find_property(each.node->metadata, keys::confidence);  // V601
    if (is_unknown(each) && (dropped || edit.any_source(at, is_unknown))) return "";
    said.add(each.attribution);
  }
  const std::string missing = missing_from(names_of_nodes(work.before, edit), said);
  return missing.empty() ? "" : "it lacks " + missing;
}

std::vector<FindingItem> find_provenance_not_joined(const CheckContext& context) {
  std::vector<FindingItem> items;
  const ToolEdit& edit = *context.edit;
  if (edit.nothing_to_keep()) return items;
  std::set<std::size_t> reported;
  for (std::size_t at = 0; at < edit.after.size(); ++at) {
    if (std::string problem = problem_of(at, edit); !problem.empty()) {
      items.push_back({shown_node(*edit.after[at].node), std::move(problem)});
      reported.insert(at);
    }
  }
  for (const SharedWork& work : edit.standings.shared) {
    if (std::ranges::any_of(work.after, [&](std::size_t at) { return reported.contains(at); })) continue;
    if (std::string problem = problem_of(work, edit); !problem.empty())
      items.push_back({shown_node(*edit.after[work.after.back()].node), std::move(problem)});
  }
  return items;
}

}  // namespace

const Check provenance_not_joined_check = {
    {"V604", "provenance_not_joined", "nodes that replaced others and do not say what those said (rules 2, 4 and 5)",
     "join the modules, identities and operations of all nodes that the node stands for; keep a single value that all "
     "have",
     "What the fused node costs or breaks is laid to one of its modules alone.", Severity::error},
    find_provenance_not_joined,
    /*full=*/false,
    /*compares=*/true};

}  // namespace whence::validation
