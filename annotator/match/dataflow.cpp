// Places the remaining nodes, which serve placed nodes: constants, sizes, index arithmetic. Each node gets the scope of
// its readers, or the scope that encloses them if they have several. A node without placed readers gets the scope of
// its sources.
#include <algorithm>

#include "annotator/match/placement.h"
#include "annotator/operators/onnx_operators.h"

namespace whence::match {

using origin::Confidence;

namespace {

void place_with_readers(Placement& placement, ForeignNode node) {
  constexpr std::size_t max_units = 64;
  std::vector<UnitIndex> units;
  ScopeIndex scope;
  ForeignNode first;
  bool one_scope = true, same_match = true;
  Confidence weakest = Confidence::exact;
  for (const ForeignNode other : placement.readers(node)) {
    if (!placement.placed(other)) continue;
    const NodeMatch& reader = placement.matches[other];
    if (!first.exists()) first = other;
    weakest = std::max(weakest, reader.confidence);
    one_scope &= !scope.exists() || scope == reader.scope;
    same_match &= reader.units == placement.matches[first].units && reader.scope == placement.matches[first].scope;
    scope = placement.reference.scopes.together(scope, reader.scope);
    if (units.size() < max_units) units.insert(units.end(), reader.units.begin(), reader.units.end());
  }
  if (!first.exists()) return;
  // Index and size arithmetic may come from a module that encloses its readers, so their scope is not certain. An
  // inference from another inference is not reliable.
  const bool constant = placement.foreign.nodes[node].kind == NodeKind::constant;
  const bool is_certain = one_scope && constant && weakest <= Confidence::matched;
  const auto confidence = is_certain ? Confidence::inferred : Confidence::ancestor;
  if (same_match) {
    placement.matches[node] = placement.matches[first];
    placement.matches[node].confidence = confidence;
    placement.matches[node].rule = MatchRule::dataflow;
    return;
  }
  placement.place_in(node, scope, std::move(units), confidence, MatchRule::dataflow);
  placement.matches[node].shared = placement.matches[node].units.size() > 1;
}

void place_with_sources(Placement& placement, ForeignNode node) {
  const ForeignStructure& f = placement.foreign;
  for (const ForeignValue input : f.nodes[node].inputs) {
    if (!input.exists()) continue;
    for (const ForeignNode producer : f.values[input].producers) {
      if (!placement.placed(producer)) continue;
      placement.matches[node] = placement.matches[producer];
      placement.matches[node].confidence = Confidence::ancestor;
      placement.matches[node].rule = MatchRule::dataflow;
      return;
    }
  }
}

// Returns true if nodes before and after read the same weight: these are two calls of a module, and a node between them
// is outside of it.
bool is_between_calls(const Placement& placement, const std::vector<ForeignNode>& before,
                      const std::vector<ForeignNode>& after) {
  const ForeignStructure& f = placement.foreign;
  const auto weights = [&](ForeignNode node) {
    std::vector<ForeignTensor> found;
    for (const ForeignValue input : f.nodes[node].inputs) {
      const ForeignTensor tensor = input.exists() && f.values[input].constant ? f.root_tensor(input) : ForeignTensor();
      if (tensor.exists() && f.tensors[tensor].elements() > 1) found.push_back(tensor);
    }
    return found;
  };
  return std::ranges::any_of(before, [&](ForeignNode source) {
    const auto first = weights(source);
    return std::ranges::any_of(after, [&](ForeignNode reader) {
      const auto second = weights(reader);
      return std::ranges::find_first_of(first, second) != first.end();
    });
  });
}

// Places a node if there are placed neighbours before and after it, all of one scope.
void place_if_enclosed(Placement& placement, ForeignNode node) {
  const auto before = placement.sources(node), after = placement.readers(node);
  ScopeIndex scope;
  bool is_certain = true;
  for (const auto* side : {&before, &after}) {
    bool any = false;
    for (const ForeignNode other : *side) {
      if (!placement.placed(other)) continue;
      any = true;
      if (scope.exists() && placement.matches[other].scope != scope) return;
      scope = placement.matches[other].scope;
      is_certain &= placement.matches[other].confidence <= Confidence::matched;
    }
    if (!any) return;
  }
  if (is_between_calls(placement, before, after)) {
    scope = root_scope;  // the caller is unknown
    is_certain = false;
  }
  placement.matches[node].scope = scope;
  placement.matches[node].confidence = is_certain ? Confidence::inferred : Confidence::ancestor;
  placement.matches[node].rule = MatchRule::dataflow;
}

}  // namespace

void place_between(Placement& placement) {
  const auto& order = placement.foreign.order;
  for (const ForeignNode node : order) {
    if (!placement.settled(node)) place_if_enclosed(placement, node);
  }
  for (auto node = order.rbegin(); node != order.rend(); ++node) {
    if (placement.settled(*node)) continue;
    if (placement.foreign.nodes[*node].kind == NodeKind::constant) {
      place_with_readers(placement, *node);
    } else {
      place_if_enclosed(placement, *node);
    }
  }
}

void place_by_dataflow(Placement& placement) {
  const auto& order = placement.foreign.order;
  for (auto node = order.rbegin(); node != order.rend(); ++node) {
    if (!placement.settled(*node)) place_with_readers(placement, *node);
  }
  for (const ForeignNode node : order) {
    if (!placement.settled(node)) place_with_sources(placement, node);
  }
  // Sizes and indices often come from a module around the one that needs them, so the neighbours' module is not
  // certain.
  for (const ForeignNode node : order) {
    NodeMatch& match = placement.matches[node];
    const bool by_neighbours = match.rule == MatchRule::dataflow && match.confidence == Confidence::inferred;
    if (by_neighbours && operators::has(placement.foreign.nodes[node].op_type, operators::size_arithmetic)) {
      match.confidence = Confidence::ancestor;
    }
  }
}

}  // namespace whence::match
