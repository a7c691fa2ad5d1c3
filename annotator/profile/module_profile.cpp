#include "annotator/profile/module_profile.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "annotator/functions/flat_summary.h"
#include "annotator/match/file_structure.h"
#include "annotator/match/match.h"
#include "annotator/profile/inlined_names.h"
#include "annotator/view/node_graph.h"

namespace whence::profile {

using onnx_file::OnnxSummary;
using view::PlacedNode;

namespace {

// The module and call of an operator that ran, and the rule that found them.
struct Found {
  ProfileRule rule = ProfileRule::none;
  std::optional<std::size_t> row;
  std::string call;
  bool same_operator = true;
};

class ByName {
 public:
  explicit ByName(const view::NodeGraph& graph) {
    for (const PlacedNode& placed : graph.nodes) {
      if (!placed.node->name.empty()) nodes_[placed.node->name].push_back(&placed);
    }
  }

  bool known(std::string_view name) const { return nodes_.contains(name); }

  Found find(std::string_view name, std::string_view op_type) const {
    if (known(name)) return found(name, op_type, ProfileRule::name);
    const std::string_view origin = origin_in(name);
    return origin.empty() ? Found{} : found(origin, op_type, ProfileRule::derived);
  }

  // The longest beginning that is a node's name. A number behind it alone tells another node: "/Add_1" is not "/Add".
  std::string_view origin_in(std::string_view name) const {
    for (std::size_t end = name.size(); end > 1; --end) {
      if (name[end - 1] != '/' && name[end - 1] != '_') continue;
      const std::string_view rest = name.substr(end);
      const bool number = rest.find_first_not_of("0123456789_") == std::string_view::npos;
      if (!number && known(name.substr(0, end - 1))) return name.substr(0, end - 1);
    }
    return {};
  }

 private:
  // Several nodes may carry the name; they say something when they agree.
  Found found(std::string_view name, std::string_view op_type, ProfileRule rule) const {
    const std::vector<const PlacedNode*>& all = nodes_.at(name);
    const PlacedNode& first = *all.front();
    const bool agree = std::ranges::all_of(all, [&](const PlacedNode* each) { return each->row == first.row; });
    if (!agree || !first.row) return {};
    const bool one = all.size() == 1;
    return {rule, first.row, one ? first.attribution.call : "", first.node->op_type == op_type};
  }

  std::unordered_map<std::string_view, std::vector<const PlacedNode*>> nodes_;
};

// Finds the module of an operator by matching the optimised file, which has nodes of the same names, with the model.
class ByMatch {
 public:
  ByMatch(const OnnxSummary& optimized, const OnnxSummary& model, const view::ModuleTree& tree, const Place& place)
      : reference_(match::make_reference(model)) {
    for (std::size_t i = 0; i < tree.rows.size(); ++i) rows_.emplace(tree.rows[i].path, i);
    const auto nodes = match::nodes_with_functions(optimized);
    for (const onnx_file::OnnxNode* node : nodes) ++names_[node->name];
    matches_ = match::match_model(optimized, reference_);
    if (matches_.fit.of_another_model()) {
      throw Error(Code::sidecar_mismatch, "the optimised file is of another model than the annotated one",
                  "give the file that the profiled session saved (SessionOptions.optimized_model_filepath)", place);
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (names_[nodes[i]->name] == 1) by_name_.emplace(nodes[i]->name, i);
    }
  }

  bool known(std::string_view name) const { return names_.contains(name); }

  Found find(std::string_view name) const {
    const auto node = by_name_.find(name);
    if (name.empty() || node == by_name_.end()) return {};
    const match::NodeMatch& match = matches_.nodes[node->second];
    if (!match.scope.exists() || match.confidence == origin::Confidence::unattributed) return {};
    const origin::ModuleCall& scope = reference_.scopes[match.scope];
    const auto row = rows_.find(scope.path);
    if (row == rows_.end()) return {};
    return {ProfileRule::match, row->second, std::to_string(scope.call)};
  }

 private:
  match::Reference reference_;
  match::MatchReport matches_;
  std::unordered_map<std::string, std::size_t> rows_;
  std::unordered_map<std::string_view, int> names_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

// Different models share operator names ("/Add", "MatMul_3"), so a few common names do not prove that the profile is of
// this model; fusions rename operators, so many unknown names do not disprove it.
constexpr std::size_t least_share_of_names = 5;  // one of so many
constexpr std::size_t least_share_of_optimized = 2;

void require_meeting(const OrtProfile& profile, const InlinedNames& inlined, const ByName& names,
                     const ByMatch* matches, const Place& place) {
  std::set<std::string_view> all, met, met_optimized;
  for (const ProfiledOperator& each : profile.operators) {
    all.insert(each.name);
    const std::string name = inlined.before(each.name);
    if (names.known(name) || !names.origin_in(name).empty()) met.insert(each.name);
    if (matches == nullptr) continue;
    if (matches->known(each.name)) met_optimized.insert(each.name);
    if (matches->find(each.name).rule == ProfileRule::match) met.insert(each.name);
  }
  const std::string of_all = " of the " + std::to_string(all.size()) + " operators of the profile";
  if (matches != nullptr && met_optimized.size() * least_share_of_optimized < all.size()) {
    throw Error(Code::sidecar_mismatch,
                "the optimised file has " + std::to_string(met_optimized.size()) + of_all + " by name",
                "give the file that the profiled session saved (SessionOptions.optimized_model_filepath)", place);
  }
  if (met.size() * least_share_of_names < all.size()) {
    throw Error(Code::sidecar_mismatch, "the model has " + std::to_string(met.size()) + of_all,
                "give the file that the profiled session was made from; if it is, --optimized FILE, which the session "
                "saves with SessionOptions.optimized_model_filepath",
                place);
  }
}

void add_times(ModuleProfile& result) {
  result.times.resize(result.tree.rows.size());
  std::map<std::pair<std::size_t, std::string>, std::int64_t> calls;
  for (const ProfiledNode& node : result.nodes) {
    result.microseconds += node.ran.microseconds;
    if (!node.row) {
      result.unattributed += node.ran.microseconds;
      continue;
    }
    result.times[*node.row].own += node.ran.microseconds;
    if (!node.call.empty()) calls[{*node.row, node.call}] += node.ran.microseconds;
    for (std::optional<std::size_t> at = node.row; at; at = result.tree.rows[*at].parent) {
      result.times[*at].total += node.ran.microseconds;
    }
  }
  for (const auto& [key, time] : calls) result.calls.push_back({key.first, key.second, time});
  std::ranges::stable_sort(result.calls, [](const CallTime& a, const CallTime& b) {
    return a.row != b.row                   ? a.row < b.row
           : a.call.size() != b.call.size() ? a.call.size() < b.call.size()
                                            : a.call < b.call;  // numbers as text
  });
}

}  // namespace

std::string_view name_of(ProfileRule rule) {
  constexpr std::string_view names[] = {"none", "name", "derived", "match"};
  return names[static_cast<std::size_t>(rule)];
}

Result<ModuleProfile> profile_by_module(const std::string& model_path, const std::string& profile_path,
                                        const std::string& optimized_path) {
  return guarded([&] {
    const Place place{.file = profile_path, .stage = "profile"};
    const OnnxSummary model = value_of(functions::read_flat_summary(model_path));
    auto profile = value_of(read_ort_profile(profile_path));
    const InlinedNames inlined(value_of(onnx_file::read_onnx_summary(model_path)), profile);
    const view::NodeGraph graph = view::node_graph_of(model, nullptr);
    if (graph.tree.unattributed == graph.tree.count) {
      throw Error(Code::usage, "no node of the file says which module it belongs to", "`whence annotate` it first",
                  {.file = model_path, .stage = "profile"});
    }
    const ByName names(graph);
    std::optional<OnnxSummary> optimized;
    std::optional<ByMatch> matches;
    if (!optimized_path.empty()) {
      optimized = value_of(onnx_file::read_onnx_summary(optimized_path));
      matches.emplace(*optimized, model, graph.tree, place);
    }
    require_meeting(profile, inlined, names, matches ? &*matches : nullptr, place);

    ModuleProfile result;
    result.file = base_name(model_path);
    result.profile = base_name(profile_path);
    result.tree = graph.tree;
    result.matched = matches.has_value();
    result.runs = profile.runs;
    result.run_microseconds = profile.run_microseconds;
    for (const ProfiledOperator& ran : profile.operators) {
      Found found;
      if (matches) found = matches->find(ran.name);
      if (found.rule == ProfileRule::none) found = names.find(inlined.before(ran.name), ran.op_type);
      if (found.rule == ProfileRule::name && !found.same_operator) ++result.merged;
      if (found.rule == ProfileRule::derived) ++result.merged;
      result.nodes.push_back({ran, found.rule, found.row, found.call});
    }
    add_times(result);
    return result;
  });
}

}  // namespace whence::profile
