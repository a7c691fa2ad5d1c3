// Decides which pairs are certain: a broken tie is a guess, and so are the pairs that follow from it alone.
#include <algorithm>

#include "annotator/match/correspondence.h"
#include "annotator/match/correspondence_weights.h"
#include "schema/sort_unique.h"

namespace whence::match {

// Returns true if the pair has support that does not follow from broken ties, and clearly more of it than any rival.
bool Correspondence::stands_alone(ForeignNode f, ReferenceNode r) const {
  return support(f, r, Trust::certain) >= needed &&
         score(f, r, Trust::certain) - best_rival(f, r, Trust::certain) >= small_gap &&
         leads_by_support(f, r, Trust::certain);
}

// Returns true if all rivals to which the node could correspond as well are of the same scopes.
bool Correspondence::rivals_share_scope(ForeignNode f, ReferenceNode r) const {
  const auto scopes = [&](ReferenceNode node) {
    std::vector<ScopeIndex> found;
    for (const UnitIndex unit : reference_.units_of_node[node]) found.push_back(reference_.units[unit].scope);
    sort_unique(found);
    return found;
  };
  if (support(f, r, Trust::certain) < needed) return false;
  if (f_.nodes[f].op_type == "Shape") return false;  // one for all modules that ask, also for those that did not
  const double own = score(f, r, Trust::certain);
  const auto known = scopes(r);
  // If another node has an equal claim to the partner, this one may have to take a partner with a lower score.
  const bool contested = std::ranges::any_of(rivals_of_r_[r], [&](ForeignNode other) {
    return other != f && !certain_[other] && score(other, r, Trust::certain) >= own - clear_gap;
  });
  return std::ranges::all_of(rivals_of_f_[f], [&](ReferenceNode other) {
    const ForeignNode taker = foreign_node_of_[other];
    const bool taken = taker.exists() && taker != f && certain_[taker];
    if (taken || scopes(other) == known) return true;
    return contested ? support(f, other, Trust::certain) < needed : score(f, other, Trust::certain) < own - clear_gap;
  });
}

// Returns true if a node that has no partner in the end could have been chosen as well.
bool Correspondence::leaves_equal_rival(ForeignNode f, ReferenceNode r) const {
  const double own = support(f, r, Trust::certain);
  return std::ranges::any_of(rivals_of_f_[f], [&](ReferenceNode other) {
    return other != r && !foreign_node_of_[other].exists() && !other_form_taken(other) && !same_units(other, r) &&
           support(f, other, Trust::certain) >= own;
  });
}

bool Correspondence::may_be_guessed(ForeignNode f) const {
  return node_of_[f].exists() && !certain(f) && tie_scope_[f].exists();
}

// A pair that follows from a guess is one.
void Correspondence::spread_guess(ForeignNode f) {
  std::vector<ForeignNode> open = {f};
  guessed_[f] = true;
  const auto see = [&](ForeignNode next) {
    if (!next.exists() || guessed_[next] || !may_be_guessed(next)) return;
    guessed_[next] = true;
    open.push_back(next);
  };
  while (!open.empty()) {
    const ForeignNode at = open.back();
    open.pop_back();
    for (const ForeignValue input : f_.data_inputs(at)) {
      if (!input.exists()) continue;
      for (const ForeignNode maker : f_.makers(input)) see(maker);
    }
    for (const ForeignValue output : f_.nodes[at].outputs) {
      if (!output.exists()) continue;
      for (const auto& use : f_.heavy_uses(f_.loose(output))) see(use.node);
    }
  }
}

// Returns the scope around all rivals of the pair; none where they are all of one scope.
ScopeIndex Correspondence::scope_of_tie(ForeignNode f, ReferenceNode r) const {
  ScopeIndex scope;
  bool one = true;
  const auto add = [&](ReferenceNode node) {
    for (const UnitIndex unit : reference_.units_of_node[node]) {
      const ScopeIndex other = reference_.units[unit].scope;
      one = one && (!scope.exists() || !other.exists() || other == scope);
      scope = reference_.scopes.together(scope, other);
    }
  };
  add(r);
  const double own = score(f, r);
  see_rivals(f, r, Trust::all, [&](ForeignNode a, ReferenceNode b) {
    if (score(a, b) >= own - clear_gap) add(b);
  });
  return one ? ScopeIndex() : scope;
}

// Returns the scope around the broken ties from which the pair's values follow; none when no tie is between several
// scopes.
ScopeIndex Correspondence::scope_of_ties_around(ForeignNode f, ReferenceNode r) const {
  ScopeIndex scope;
  const auto see = [&](ForeignValue fv) {
    if (fv.exists() && value_of_[fv].exists()) scope = reference_.scopes.together(scope, value_tie_scope_[fv]);
  };
  for (const ForeignValue value : f_.data_inputs(f)) see(value);
  for (const ForeignValue output : f_.nodes[f].outputs) see(f_.loose(output));
  if (!scope.exists()) return scope;
  for (const UnitIndex unit : reference_.units_of_node[r])
    scope = reference_.scopes.together(scope, reference_.units[unit].scope);
  return scope;
}

// Marks as certain the values that a certain pair reads and writes in the same positions.
void Correspondence::confirm_values(ForeignNode f, ReferenceNode r) {
  const auto agree = [&](ForeignValue fv, ReferenceValue rv) {
    if (fv.exists() && rv.exists() && value_of_[fv] == rv) value_certain_[fv] = true;
  };
  const auto a = f_.data_inputs(f);
  const auto b = r_.data_inputs(r);
  const bool by_place = !f_.nodes[f].commutative && a.size() == b.size();
  for (std::size_t i = 0; by_place && i < a.size(); ++i) agree(a[i], b[i]);
  const auto& f_outputs = f_.nodes[f].outputs;
  const auto& r_outputs = r_.nodes[r].outputs;
  for (std::size_t i = 0; i < f_outputs.size() && i < r_outputs.size(); ++i)
    agree(f_.loose(f_outputs[i]), r_.loose(r_outputs[i]));
}

// Confirms pairs from a broken tie that pairs found later support independently.
void Correspondence::confirm() {
  if (!tie_broken_) return;
  for (bool any = true; any;) {
    any = false;
    for (const ForeignNode f : f_.order) {
      if (!node_of_[f].exists()) continue;
      if (!certain_[f] && stands_alone(f, node_of_[f])) certain_[f] = any = true;
      if (certain_[f]) confirm_values(f, node_of_[f]);
    }
  }
  for (const ForeignNode f : f_.order) {
    if (node_of_[f].exists() && !certain_[f]) sure_of_scope_[f] = rivals_share_scope(f, node_of_[f]);
  }
  for (const ForeignNode f : f_.order) {
    if (!guessed_[f] && may_be_guessed(f) && leaves_equal_rival(f, node_of_[f])) spread_guess(f);
  }
}

}  // namespace whence::match
