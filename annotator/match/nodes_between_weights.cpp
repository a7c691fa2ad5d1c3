#include "annotator/match/nodes_between_weights.h"

#include <algorithm>

#include "annotator/match/fused_operators.h"

namespace whence::match {

using origin::Confidence;

void NodesBetweenWeights::place_computing(ForeignNode node) {
  const auto& entry = f_.nodes[node];
  if (placement_.placed(node) || entry.kind == NodeKind::constant) return;
  const auto& before = nearest_.before(node);
  const auto& after = nearest_.after(node);
  const bool is_between = !before.empty() && !after.empty();
  const ScopeIndex enclosing = !is_between            ? root_scope
                               : entry.computes_sizes ? nearest_.around_all(node)
                                                      : nearest_.around(before, after);
  if (place_by_name(node, enclosing)) return;
  placement_.place_inside(node, enclosing);
  const bool is_innermost =
      enclosing != root_scope && !owners_.has_modules_inside(enclosing) && owners_.has_parameters(enclosing);
  if (is_between && is_innermost) placement_.matches[node].confidence = Confidence::inferred;
}

// A number or a list of sizes that one operator takes belongs to the module of this operator. A value computed from
// constants may be passed from any enclosing module, and so may the indices of a Gather.
void NodesBetweenWeights::place_constant(ForeignNode node) {
  if (placement_.placed(node)) return;
  const auto readers = placement_.readers(node);
  ScopeIndex scope;
  Confidence weakest = Confidence::exact;
  bool is_own = f_.nodes[node].op_type == "Constant";
  for (const ForeignNode reader : readers) {
    const NodeMatch& match = placement_.matches[reader];
    is_own = is_own && match.scope.exists() && f_.nodes[reader].op_type != "Gather";
    scope = scopes_.together(scope, match.scope);
    weakest = std::max(weakest, match.confidence);
  }
  const ScopeIndex enclosing = is_own ? scope : root_scope;
  if (place_by_name(node, enclosing)) return;
  placement_.place_inside(node, enclosing);
  const bool has_one_scope = is_own && std::ranges::all_of(readers, [&](ForeignNode reader) {
                               return placement_.matches[reader].scope == scope;
                             });
  if (has_one_scope && !readers.empty()) placement_.matches[node].confidence = std::max(weakest, Confidence::inferred);
}

// Returns false if the node has no name of a module.
bool NodesBetweenWeights::place_by_name(ForeignNode node, ScopeIndex enclosing) {
  const Evidence* name = names_.name_of(node);
  if (name == nullptr) return false;
  // Tools put a Reshape around a product under the product's name, or merge it with one that was there. A convolution,
  // or a runtime's operator, keeps the name of one of the nodes that it absorbed.
  const auto& entry = f_.nodes[node];
  const bool may_be_inserted = entry.kind == NodeKind::transparent && owners_.has_parameters(name->scope);
  const bool absorbs = is_convolution(entry.op_type) || absorbs_neighbour(entry);
  if (!scopes_.within(name->scope, enclosing) || may_be_inserted || absorbs) {
    const ScopeIndex scope = absorbs ? std::max(scopes_[name->scope].parent, root_scope) : name->scope;
    placement_.place_inside(node, scopes_.common(enclosing, scope));
    return true;
  }
  const UnitIndex unit = owners_.unit_of(name->scope);
  if (unit.exists() && norms_.partner(unit).exists()) {
    placement_.place(node, {unit, norms_.partner(unit)}, Confidence::inferred, name->rule);
    return true;
  }
  const auto confidence =
      std::max(name->strength > 1 ? Confidence::inferred : Confidence::ancestor, name->max_confidence);
  placement_.matches[node] = {.scope = name->scope, .confidence = confidence, .rule = name->rule};
  return true;
}

}  // namespace whence::match
