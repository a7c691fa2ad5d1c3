#include "annotator/match/folded_norms_by_names.h"

#include <algorithm>
#include <set>
#include <string>

namespace whence::match {

using origin::Confidence;

namespace {

// Returns the first scope that evidence of a kind states; none if there is none.
ScopeIndex stated_scope(const std::vector<Evidence>& evidence, const auto& is_of_kind) {
  const auto found = std::ranges::find_if(
      evidence, [&](const Evidence& each) { return each.scope.exists() && is_of_kind(each.rule); });
  return found == evidence.end() ? ScopeIndex() : found->scope;
}

bool has_bias_of_another(const Placement& placement, ForeignNode node) {
  constexpr std::size_t bias = 2;
  const NodeMatch& match = placement.matches[node];
  const auto& inputs = placement.foreign.nodes[node].inputs;
  if (inputs.size() <= bias || !inputs[bias].exists()) return false;
  const std::string& path = placement.reference.scopes[match.scope].path;
  const bool is_named = match.rule != MatchRule::initializers;
  return !path.empty() && (!is_named || placement.foreign.values[inputs[bias]].name != path + ".bias");
}

// Returns the slot of the weight in an integer convolution; 0 for other operators.
std::size_t integer_weight_slot(std::string_view op_type) {
  return op_type == "ConvInteger" ? 1 : op_type == "QLinearConv" ? 3 : 0;
}

}  // namespace

void raise_folded_convolution(Placement& placement, ForeignNode node, const std::vector<Evidence>& evidence) {
  const std::string_view op_type = placement.foreign.nodes[node].op_type;
  NodeMatch& match = placement.matches[node];
  if (op_type != "Conv" && op_type != "ConvTranspose") return;
  if (!placement.placed(node) || match.confidence == Confidence::exact) return;
  const ScopeIndex weights = stated_scope(evidence, is_of_parameter);
  const ScopeIndex keys = stated_scope(evidence, [](MatchRule rule) { return rule == MatchRule::carried; });
  if (weights.exists() && keys.exists() && weights != keys) {
    match.scope = placement.reference.scopes.common(weights, keys);
    match.units.clear();
    match.confidence = Confidence::ancestor;
    return;
  }
  if (weights.exists() && weights == keys) return;
  if (has_bias_of_another(placement, node)) placement.raise_to_parent(node);
}

void raise_folded_integer_convolutions(Placement& placement) {
  const ForeignStructure& structure = placement.foreign;
  std::set<ScopeIndex> folded;
  for (const ForeignNode i : structure.nodes.keys()) {
    const auto& node = structure.nodes[i];
    const std::size_t weight = integer_weight_slot(node.op_type);
    const NodeMatch& match = placement.matches[i];
    if (weight == 0 || weight >= node.inputs.size() || !node.inputs[weight].exists()) continue;
    if (match.rule != MatchRule::names || !match.scope.exists()) continue;
    const std::string own = placement.reference.scopes[match.scope].path + ".weight";
    if (!structure.values[node.inputs[weight]].name.starts_with(own)) folded.insert(match.scope);
  }
  for (const ForeignNode i : structure.nodes.keys()) {
    const NodeMatch& match = placement.matches[i];
    if (match.rule == MatchRule::names && folded.contains(match.scope)) placement.raise_to_parent(i);
  }
}

}  // namespace whence::match
