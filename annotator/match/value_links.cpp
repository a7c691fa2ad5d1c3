#include "annotator/match/value_links.h"

#include <utility>

#include "annotator/match/growth_limits.h"
#include "annotator/match/value_steps.h"

namespace whence::match {
namespace {

constexpr std::size_t few_uses = 4;   // growth does not step over the readers of a value with more uses
constexpr std::size_t max_forms = 5;  // forms of one operation in a reference; each uses the same value

}  // namespace

void ValueLinks::set_certainty(bool certain, ScopeIndex tie_scope) {
  certain_ = certain;
  tie_scope_ = tie_scope;
}

void ValueLinks::link(ForeignValue fv, ReferenceValue rv) {
  if (!fv.exists() || !rv.exists() || f_.values[fv].constant || r_.values[rv].constant) return;
  if (!pairs_.pair(fv, rv, certain_, tie_scope_)) return;
  propose_readers(fv, rv);
  propose_makers(fv, rv, Distance::near);
}

// The two values are the same, unless one side computes something more before it. An extra step of the foreign file
// stays without a partner. An extra step of the reference: an activation or normalization is absorbed by the product
// before it, which produces the same value; plain arithmetic is absorbed by the reader, or done elsewhere.
void ValueLinks::link_operand(ForeignValue fv, ReferenceValue rv) {
  if (!fv.exists() || !rv.exists() || pairs_.partner(fv).exists()) return;
  if (likeness_.are_produced_alike(fv, rv)) return link(fv, rv);
  for (const ForeignValue earlier : values_before(f_, fv)) {
    if (!pairs_.partner(earlier).exists() && !pairs_.partner(rv).exists() && likeness_.are_produced_alike(earlier, rv))
      return link(earlier, rv);
  }
  for (const ReferenceValue earlier : values_before(r_, rv)) {
    if (earlier == rv || pairs_.partner(earlier).exists()) continue;
    if (!likeness_.are_produced_alike(fv, earlier)) continue;
    if (!folded_.is_absorbed_by_product(rv)) return link(fv, folded_.after_scalings(fv, earlier));
    link(fv, rv);
    propose_makers(fv, earlier, Distance::far);
    return;
  }
  if (f_.makers(fv).empty() || r_.makers(rv).empty()) link(fv, rv);
}

void ValueLinks::link_result(ForeignValue fv, ReferenceValue rv) {
  if (!fv.exists() || !rv.exists() || pairs_.partner(fv).exists()) return;
  constexpr double clearly = 0.4;
  double best = likeness_.common_reader_share(fv, rv);
  std::pair target{fv, rv};
  const auto try_pair = [&](ForeignValue f_later, ReferenceValue r_later) {
    if (pairs_.partner(f_later).exists() || pairs_.partner(r_later).exists()) return;
    const double share = likeness_.common_reader_share(f_later, r_later);
    if (share <= best + clearly) return;
    best = share;
    target = {f_later, r_later};
  };
  if (best < 1) {
    for (const ReferenceValue later : values_after(r_, rv, max_forms * few_uses)) try_pair(fv, later);
    for (const ForeignValue later : values_after(f_, fv, few_uses)) try_pair(later, rv);
  }
  if (best == 0) {
    // No two readers are alike: nodes that read weights by channel are in both files, unless they were folded into the
    // foreign product.
    if (const ReferenceValue later = folded_.after_weighted(fv, rv); later != rv) return link(fv, later);
  }
  // A step that only the foreign file has does not count: the values before and after it both correspond to `rv`.
  if (target.first != fv) link(fv, rv);
  if (target.second == rv || folded_.is_absorbed_by_product(target.second)) return link(target.first, target.second);
  // Plain arithmetic that only the reference has: the product absorbed it, or its readers do the arithmetic now.
  const ReferenceValue later = target.first == fv ? folded_.after_scalings(fv, rv) : rv;
  link(fv, later);
  if (later != target.second) propose_distant_readers(fv, target.second);
}

void ValueLinks::propose_readers(ForeignValue fv, ReferenceValue rv) {
  const auto& f_uses = f_.heavy_uses(fv);
  const auto& r_uses = r_.heavy_uses(rv);
  if (f_uses.size() > max_readers || r_uses.size() > 4 * max_readers) return;
  for (const auto& f_use : f_uses) {
    for (const auto& r_use : r_uses) {
      const auto& f_node = f_.nodes[f_use.node];
      const auto& r_node = r_.nodes[r_use.node];
      if (f_node.op_class != r_node.op_class) continue;
      const bool slots_matter = !f_node.commutative && f_node.inputs.size() == r_node.inputs.size();
      if (slots_matter && f_use.slot != r_use.slot) continue;
      proposals_.propose(f_use.node, r_use.node);
    }
  }
}

void ValueLinks::propose_makers(ForeignValue fv, ReferenceValue rv, Distance distance) {
  for (const ForeignNode f : f_.makers(fv)) {
    for (const ReferenceNode r : r_.makers(rv)) {
      if (f_.nodes[f].op_class == r_.nodes[r].op_class) proposals_.propose(f, r, distance);
    }
  }
}

void ValueLinks::propose_distant_readers(ForeignValue fv, ReferenceValue rv) {
  for (const auto& f_use : f_.heavy_uses(fv)) {
    for (const auto& r_use : r_.heavy_uses(rv)) {
      const bool same = f_.nodes[f_use.node].op_class == r_.nodes[r_use.node].op_class && f_use.slot == r_use.slot;
      if (same) proposals_.propose(f_use.node, r_use.node, Distance::far);
    }
  }
}

}  // namespace whence::match
