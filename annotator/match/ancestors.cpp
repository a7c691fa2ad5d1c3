// Raises the module of each node with confidence `ancestor` until it encloses every operation that the node can
// represent. A node without a partner is either part of the decomposition of one of its readers, or it represents an
// operation before that reader's operation, at most as far back as values that the foreign file also has. The node runs
// between its sources and its readers, so a module that encloses both also encloses it. The module around all these
// candidates encloses the node's own.
//
//   reference  equal -> where -> add(mask)     of block, block, block.attention
//   foreign    ?     -> ?     -> Add           both: block or below
#include <algorithm>
#include <set>

#include "annotator/match/placement.h"

namespace whence::match {

using origin::Confidence;

namespace {

constexpr std::size_t max_sources = 512;  // reference nodes before one operation; with more, the scope is the root

class Ancestors {
 public:
  explicit Ancestors(Placement& placement)
      : placement_(placement),
        f_(placement.foreign),
        r_(placement.reference.structure),
        nodes_of_unit_(placement.reference.units.size()),
        scope_before_unit_(placement.reference.units.size()),
        bounds_(f_.nodes.size()),
        outside_(f_.nodes.size(), false),
        inside_(f_.nodes.size(), false) {
    for (const ForeignNode node : f_.order) inside_[node] = reads_placed(node);
    for (const ReferenceNode i : r_.nodes.keys()) {
      for (const UnitIndex unit : placement.reference.units_of_node[i]) {
        nodes_of_unit_[unit].push_back(i);
      }
    }
  }

  void raise() {
    for (auto node = f_.order.rbegin(); node != f_.order.rend(); ++node) {
      bounds_[*node] = bound_of(*node);
      outside_[*node] = is_before_recording(*node);
      NodeMatch& match = placement_.matches[*node];
      if (match.confidence != Confidence::ancestor || match.rule == MatchRule::carried) continue;
      if (placement_.max_confidence(match.units) == Confidence::ancestor) continue;  // the reference has this scope
      const ScopeIndex scope = match.rule == MatchRule::inserted ? scope_with_readers(*node) : scope_of(*node);
      if (scope == match.scope) continue;
      match.scope = scope;  // without a particular operation
      match.units.clear();
      match.shared = false;
    }
  }

 private:
  // Returns true for a known size that becomes an element of a list: Constant -> Unsqueeze -> Concat.
  bool puts_into_list(ForeignNode node) const {
    const auto is_element = [&](ForeignNode each) {
      return f_.nodes[each].kind == NodeKind::constant && f_.nodes[each].op_type == "Unsqueeze";
    };
    return is_element(node) || std::ranges::any_of(placement_.readers(node), is_element);
  }

  ScopeIndex together(ScopeIndex a, ScopeIndex b) const { return placement_.reference.scopes.together(a, b); }

  // Returns the scope around the operations that the node may represent and that no form of the reference contains.
  ScopeIndex around_vanished(ForeignNode node) const {
    const std::string_view op_type = f_.nodes[node].op_type;
    if (op_type != "Cast" && op_type != "Transpose") return {};
    return placement_.scope_of(placement_.vanished_between(placement_.sources(node), placement_.readers(node)));
  }

  // Returns true if the node depends on a result of a known node.
  bool reads_placed(ForeignNode node) const {
    return std::ranges::any_of(placement_.sources(node),
                               [&](ForeignNode source) { return inside_[source] || is_known(source); });
  }

  bool is_known(ForeignNode node) const {
    const NodeMatch& match = placement_.matches[node];
    return match.confidence < Confidence::ancestor && match.rule != MatchRule::inserted;
  }

  // Returns true for a node between the inputs of the file and operations that read only inputs of the recorded
  // program. It may belong to a wrapper around the recorded model that prepares the model's inputs.
  bool is_before_recording(ForeignNode node) {
    if (inside_[node] || is_known(node)) return false;
    bool any = false;
    for (const ForeignNode reader : placement_.readers(node)) {
      if (!placement_.placed(reader)) continue;
      any = true;
      if (outside_[reader]) continue;
      const NodeMatch& match = placement_.matches[reader];
      // A quantiser's node after an operator reads the scale of the operator's input.
      const bool is_inserted = match.rule == MatchRule::inserted && match.confidence < Confidence::ancestor;
      if (!(is_known(reader) || is_inserted) || match.units.empty() || !read_only_inputs(match.units)) return false;
    }
    return any;
  }

  bool read_only_inputs(const std::vector<UnitIndex>& units) const {
    const auto is_own = [&](ReferenceNode producer) {
      return std::ranges::any_of(placement_.reference.units_of_node[producer],
                                 [&](UnitIndex unit) { return std::ranges::binary_search(units, unit); });
    };
    return std::ranges::all_of(units, [&](UnitIndex unit) {
      return std::ranges::all_of(nodes_of_unit_[unit], [&](ReferenceNode node) {
        return std::ranges::all_of(r_.nodes[node].inputs, [&](ReferenceValue input) {
          return !input.exists() || std::ranges::all_of(r_.values[input].producers, is_own);
        });
      });
    });
  }

  ScopeIndex scope_of(ForeignNode node) const {
    if (outside_[node]) return root_scope;
    ScopeIndex scope = together(placement_.matches[node].scope, std::max(bounds_[node], root_scope));
    scope = together(scope, around_vanished(node));
    for (const ForeignNode source : placement_.sources(node)) {
      if (!placement_.placed(source)) continue;
      scope = together(scope, together(placement_.matches[source].scope, placement_.pairs.tie_scope(source)));
    }
    // Exporters merge equal numbers in lists of sizes into the first, also across sibling modules.
    return puts_into_list(node) ? std::max(placement_.reference.scopes[scope].parent, root_scope) : scope;
  }

  // Returns the scope around an inserted node and its readers with confidence `ancestor`.
  ScopeIndex scope_with_readers(ForeignNode node) const {
    ScopeIndex scope = placement_.matches[node].scope;
    for (const ForeignNode reader : placement_.readers(node)) {
      const NodeMatch& match = placement_.matches[reader];
      if (match.confidence == Confidence::ancestor) scope = together(scope, match.scope);
    }
    return scope;
  }

  // Returns the scope around all operations that a node without a partner can represent according to its readers.
  ScopeIndex bound_of(ForeignNode node) {
    ScopeIndex scope;
    for (const ForeignNode reader : placement_.readers(node)) {
      const NodeMatch& match = placement_.matches[reader];
      if (!placement_.placed(reader)) continue;
      const ScopeIndex tied = placement_.pairs.tie_scope(reader);
      const bool known = match.confidence != Confidence::ancestor && !match.units.empty() && !tied.exists();
      if (!known) {
        scope = together(scope, together(together(match.scope, tied), bounds_[reader]));
        continue;
      }
      scope = together(scope, match.scope);
      for (const UnitIndex unit : match.units) scope = together(scope, scope_before(unit));
    }
    return scope;
  }

  // Returns the scope around a unit and all nodes before it, back to values that have a partner.
  ScopeIndex scope_before(UnitIndex unit) {
    if (scope_before_unit_[unit].exists()) return scope_before_unit_[unit];
    std::vector<ReferenceNode> nodes = nodes_of_unit_[unit];
    std::set<ReferenceNode> seen(nodes.begin(), nodes.end());
    ScopeIndex scope = placement_.reference.units[unit].scope;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (const UnitIndex other : placement_.reference.units_of_node[nodes[i]]) {
        scope = together(scope, placement_.reference.units[other].scope);
      }
      for (const ReferenceValue input : r_.nodes[nodes[i]].inputs) {
        if (!input.exists()) continue;
        for (const ReferenceNode producer : r_.values[input].producers) {
          const bool ends =
              r_.nodes[producer].kind == NodeKind::heavy && placement_.pairs.partner(r_.loose(input)).exists();
          if (!ends && seen.insert(producer).second) nodes.push_back(producer);
        }
      }
      if (nodes.size() > max_sources) return scope_before_unit_[unit] = root_scope;
    }
    return scope_before_unit_[unit] = scope;
  }

  Placement& placement_;
  const ForeignStructure& f_;
  const ReferenceStructure& r_;
  IndexedVector<UnitIndex, std::vector<ReferenceNode>> nodes_of_unit_;
  IndexedVector<UnitIndex, ScopeIndex> scope_before_unit_;
  IndexedVector<ForeignNode, ScopeIndex> bounds_;
  IndexedVector<ForeignNode, bool> outside_;  // may run before the recorded program
  IndexedVector<ForeignNode, bool> inside_;   // depends on results of known nodes
};

}  // namespace

void raise_ancestors(Placement& placement) { Ancestors(placement).raise(); }

}  // namespace whence::match
