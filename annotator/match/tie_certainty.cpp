#include "annotator/match/tie_certainty.h"

#include <algorithm>

#include "annotator/match/growth_limits.h"
#include "schema/sort_unique.h"

namespace whence::match {

bool TieCertainty::is_certain_now(ForeignNode f, ReferenceNode r) {
  // The scores of twins may differ only by how an exporter happened to write one of them, which makes a good guess.
  tie_broken_ = tie_broken_ || !rivals_.leads_by_support(f, r, Trust::all);
  return !tie_broken_ || has_own_lead(f, r);
}

ScopeIndex TieCertainty::scope_of_tie(ForeignNode f, ReferenceNode r) const {
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
  const double own = score_.score(f, r);
  rivals_.each_rival(f, r, Trust::all, [&](ForeignNode a, ReferenceNode b) {
    if (score_.score(a, b) >= own - clear_gap) add(b);
  });
  return one ? ScopeIndex() : scope;
}

ScopeIndex TieCertainty::scope_of_earlier_ties(ForeignNode f, ReferenceNode r) const {
  ScopeIndex scope;
  const auto add = [&](ForeignValue fv) {
    if (fv.exists() && pairs_.partner(fv).exists()) scope = reference_.scopes.together(scope, pairs_.tie_scope(fv));
  };
  for (const ForeignValue value : f_.data_inputs(f)) add(value);
  for (const ForeignValue output : f_.nodes[f].outputs) add(f_.loose(output));
  if (!scope.exists()) return scope;
  for (const UnitIndex unit : reference_.units_of_node[r])
    scope = reference_.scopes.together(scope, reference_.units[unit].scope);
  return scope;
}

void TieCertainty::confirm() {
  if (!tie_broken_) return;
  for (bool any = true; any;) {
    any = false;
    for (const ForeignNode f : f_.order) {
      const ReferenceNode r = pairs_.partner(f);
      if (!r.exists()) continue;
      if (!pairs_.is_certain_pair(f) && has_own_lead(f, r)) {
        pairs_.confirm_pair(f);
        any = true;
      }
      if (pairs_.is_certain_pair(f)) confirm_values(f, r);
    }
  }
  for (const ForeignNode f : f_.order) {
    const ReferenceNode r = pairs_.partner(f);
    if (r.exists() && !pairs_.is_certain_pair(f)) pairs_.set_certain_scope(f, rivals_share_scope(f, r));
  }
  for (const ForeignNode f : f_.order) {
    if (!pairs_.is_guessed(f) && may_be_guessed(f) && leaves_equal_rival(f, pairs_.partner(f))) spread_guess(f);
  }
}

// Returns true if the pair has support that does not follow from broken ties, and clearly more of it than any rival.
bool TieCertainty::has_own_lead(ForeignNode f, ReferenceNode r) const {
  return score_.support(f, r, Trust::certain) >= needed_support &&
         score_.score(f, r, Trust::certain) - rivals_.best_rival(f, r, Trust::certain) >= small_gap &&
         rivals_.leads_by_support(f, r, Trust::certain);
}

// Marks as certain the values that a certain pair reads and writes in the same positions.
void TieCertainty::confirm_values(ForeignNode f, ReferenceNode r) {
  const auto confirm_equal = [&](ForeignValue fv, ReferenceValue rv) {
    if (fv.exists() && rv.exists() && pairs_.partner(fv) == rv) pairs_.confirm_value(fv);
  };
  const auto f_inputs = f_.data_inputs(f);
  const auto r_inputs = r_.data_inputs(r);
  const bool by_position = !f_.nodes[f].commutative && f_inputs.size() == r_inputs.size();
  for (std::size_t i = 0; by_position && i < f_inputs.size(); ++i) confirm_equal(f_inputs[i], r_inputs[i]);
  const auto& f_outputs = f_.nodes[f].outputs;
  const auto& r_outputs = r_.nodes[r].outputs;
  for (std::size_t i = 0; i < f_outputs.size() && i < r_outputs.size(); ++i)
    confirm_equal(f_.loose(f_outputs[i]), r_.loose(r_outputs[i]));
}

// Returns true if all rivals to which the node could correspond as well are of the same scopes.
bool TieCertainty::rivals_share_scope(ForeignNode f, ReferenceNode r) const {
  if (score_.support(f, r, Trust::certain) < needed_support) return false;
  if (f_.nodes[f].op_type == "Shape") return false;  // one for all modules that need the size
  const double own = score_.score(f, r, Trust::certain);
  const auto own_scopes = scopes_of(r);
  // If another node fits the partner as well, this one may have to take a partner with a lower score.
  const bool is_contested = std::ranges::any_of(rivals_.of(r), [&](ForeignNode other) {
    return other != f && !pairs_.is_certain_pair(other) && score_.score(other, r, Trust::certain) >= own - clear_gap;
  });
  return std::ranges::all_of(rivals_.of(f), [&](ReferenceNode other) {
    const ForeignNode taker = pairs_.partner(other);
    const bool is_taken = taker.exists() && taker != f && pairs_.is_certain_pair(taker);
    if (is_taken || scopes_of(other) == own_scopes) return true;
    return is_contested ? score_.support(f, other, Trust::certain) < needed_support
                        : score_.score(f, other, Trust::certain) < own - clear_gap;
  });
}

std::vector<ScopeIndex> TieCertainty::scopes_of(ReferenceNode r) const {
  std::vector<ScopeIndex> scopes;
  for (const UnitIndex unit : reference_.units_of_node[r]) scopes.push_back(reference_.units[unit].scope);
  sort_unique(scopes);
  return scopes;
}

// Returns true if a node that has no partner in the end could have been chosen as well.
bool TieCertainty::leaves_equal_rival(ForeignNode f, ReferenceNode r) const {
  const double own = score_.support(f, r, Trust::certain);
  return std::ranges::any_of(rivals_.of(f), [&](ReferenceNode other) {
    return other != r && !pairs_.partner(other).exists() && !rivals_.other_form_taken(other) &&
           !reference_.same_units(other, r) && score_.support(f, other, Trust::certain) >= own;
  });
}

bool TieCertainty::may_be_guessed(ForeignNode f) const {
  return pairs_.partner(f).exists() && pairs_.tie_scope(f).exists();
}

// Marks the node as guessed, and all neighbours that may follow from it.
void TieCertainty::spread_guess(ForeignNode f) {
  std::vector<ForeignNode> open = {f};
  pairs_.mark_guessed(f);
  const auto visit = [&](ForeignNode next) {
    if (!next.exists() || pairs_.is_guessed(next) || !may_be_guessed(next)) return;
    pairs_.mark_guessed(next);
    open.push_back(next);
  };
  while (!open.empty()) {
    const ForeignNode at = open.back();
    open.pop_back();
    for (const ForeignValue input : f_.data_inputs(at)) {
      if (!input.exists()) continue;
      for (const ForeignNode maker : f_.makers(input)) visit(maker);
    }
    for (const ForeignValue output : f_.nodes[at].outputs) {
      if (!output.exists()) continue;
      for (const auto& use : f_.heavy_uses(f_.loose(output))) visit(use.node);
    }
  }
}

}  // namespace whence::match
