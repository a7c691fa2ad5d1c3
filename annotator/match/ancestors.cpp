// What is only known to lie somewhere below a module: that module must be high enough. A node without partner stands
// for one of the operations that its readers' operations are computed by, as far back as values that the foreign file
// has as well, or is part of how one of the readers is written. It runs between what it reads and what reads it, so a
// module around both is active then. The module that encloses all of these encloses its own.
//
//   reference  equal -> where -> add(mask)     of block, block, block.attention
//   foreign    ?     -> ?     -> Add           both: block or below
#include <algorithm>
#include <set>

#include "annotator/match/placement.h"

namespace whence::match {

using origin::Confidence;

namespace {

constexpr std::size_t widest = 512;  // reference nodes behind one operation; with more, nothing is known

class Ancestors {
 public:
  explicit Ancestors(Placement& placement)
      : placement_(placement),
        f_(placement.foreign),
        r_(placement.reference.structure),
        nodes_of_unit_(placement.reference.units.size()),
        behind_(placement.reference.units.size(), unknown),
        bounds_(f_.nodes.size(), none) {
    for (std::size_t i = 0; i < r_.nodes.size(); ++i) {
      for (const std::int32_t unit : placement.reference.units_of_node[i]) {
        nodes_of_unit_[unit].push_back(static_cast<std::int32_t>(i));
      }
    }
  }

  void raise() {
    for (auto node = f_.order.rbegin(); node != f_.order.rend(); ++node) {
      bounds_[*node] = bound_of(*node);
      NodeMatch& match = placement_.matches[*node];
      if (match.confidence != Confidence::ancestor || match.rule == MatchRule::carried) continue;
      if (placement_.surest(match.units) == Confidence::ancestor) continue;  // as high as the reference has it
      const std::int32_t scope = match.rule == MatchRule::inserted ? scope_with_readers(*node) : scope_of(*node);
      if (scope == match.scope) continue;
      match.scope = scope;  // and no operation in particular
      match.units.clear();
      match.shared = false;
    }
  }

 private:
  static constexpr std::int32_t none = -1, unknown = -2;

  // A known size that becomes an element of a list: Constant -> Unsqueeze -> Concat.
  bool puts_into_list(std::int32_t node) const {
    const auto is_element = [&](std::int32_t each) {
      return f_.nodes[each].kind == NodeKind::constant && f_.nodes[each].op_type == "Unsqueeze";
    };
    return is_element(node) || std::ranges::any_of(placement_.readers(node), is_element);
  }

  std::int32_t together(std::int32_t a, std::int32_t b) const {
    return a < 0 ? b : b < 0 ? a : placement_.reference.common_scope(a, b);
  }

  std::int32_t scope_of(std::int32_t node) const {
    std::int32_t scope = together(placement_.matches[node].scope, std::max(bounds_[node], 0));
    for (const std::int32_t source : placement_.sources(node)) {
      if (!placement_.placed(source)) continue;
      scope = together(scope, together(placement_.matches[source].scope, placement_.pairs.tie_scope(source)));
    }
    // Exporters merge equal numbers in lists of sizes, also those of modules beside each other, into the first.
    return puts_into_list(node) ? std::max(placement_.reference.scopes[scope].parent, 0) : scope;
  }

  // What was put in for readers that were raised goes up with them.
  std::int32_t scope_with_readers(std::int32_t node) const {
    std::int32_t scope = placement_.matches[node].scope;
    for (const std::int32_t reader : placement_.readers(node)) {
      const NodeMatch& match = placement_.matches[reader];
      if (match.confidence == Confidence::ancestor) scope = together(scope, match.scope);
    }
    return scope;
  }

  // The scope that encloses whatever a node without partner can stand for: by its readers.
  std::int32_t bound_of(std::int32_t node) {
    std::int32_t scope = none;
    for (const std::int32_t reader : placement_.readers(node)) {
      const NodeMatch& match = placement_.matches[reader];
      if (!placement_.placed(reader)) continue;
      const std::int32_t tied = placement_.pairs.tie_scope(reader);
      const bool known = match.confidence != Confidence::ancestor && !match.units.empty() && tied < 0;
      if (!known) {
        scope = together(scope, together(together(match.scope, tied), bounds_[reader]));
        continue;
      }
      scope = together(scope, match.scope);
      for (const std::int32_t unit : match.units) scope = together(scope, behind(unit));
    }
    return scope;
  }

  // The scope around a unit and all that it is computed by, up to values that have a partner.
  std::int32_t behind(std::int32_t unit) {
    if (behind_[unit] != unknown) return behind_[unit];
    std::vector<std::int32_t> nodes = nodes_of_unit_[unit];
    std::set<std::int32_t> seen(nodes.begin(), nodes.end());
    std::int32_t scope = placement_.reference.units[unit].scope;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (const std::int32_t other : placement_.reference.units_of_node[nodes[i]]) {
        scope = together(scope, placement_.reference.units[other].scope);
      }
      for (const std::int32_t input : r_.nodes[nodes[i]].inputs) {
        if (input < 0) continue;
        for (const std::int32_t producer : r_.values[input].producers) {
          const bool ends =
              r_.nodes[producer].kind == NodeKind::heavy && placement_.pairs.foreign_value(r_.loose(input)) >= 0;
          if (!ends && seen.insert(producer).second) nodes.push_back(producer);
        }
      }
      if (nodes.size() > widest) return behind_[unit] = 0;
    }
    return behind_[unit] = scope;
  }

  Placement& placement_;
  const Structure& f_;
  const Structure& r_;
  std::vector<std::vector<std::int32_t>> nodes_of_unit_;
  std::vector<std::int32_t> behind_;  // by unit
  std::vector<std::int32_t> bounds_;  // by foreign node
};

}  // namespace

void raise_ancestors(Placement& placement) { Ancestors(placement).raise(); }

}  // namespace whence::match
