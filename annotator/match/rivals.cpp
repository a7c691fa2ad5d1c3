#include "annotator/match/rivals.h"

#include <algorithm>

#include "annotator/match/growth_limits.h"

namespace whence::match {
namespace {

constexpr std::size_t max_rivals = 96;  // proposed pairs stored for a node

}  // namespace

Rivals::Rivals(const Correspondence& pairs, const PairScore& score)
    : pairs_(pairs),
      reference_(pairs.reference()),
      score_(score),
      rivals_of_f_(pairs.foreign().nodes.size()),
      rivals_of_r_(reference_.structure.nodes.size()) {}

bool Rivals::add(ForeignNode f, ReferenceNode r) {
  auto& rivals = rivals_of_f_[f];
  if (std::find(rivals.begin(), rivals.end(), r) != rivals.end()) return true;
  if (rivals.size() >= max_rivals || rivals_of_r_[r].size() >= max_rivals) return false;
  rivals.push_back(r);
  rivals_of_r_[r].push_back(f);
  return true;
}

double Rivals::best_rival(ForeignNode f, ReferenceNode r, Trust trust) const {
  double best = 0;
  each_rival(f, r, trust, [&](ForeignNode a, ReferenceNode b) { best = std::max(best, score_.score(a, b, trust)); });
  return best;
}

bool Rivals::leads_by_support(ForeignNode f, ReferenceNode r, Trust trust) const {
  const double own = score_.score(f, r, trust), supported = score_.support(f, r, trust);
  bool leads = true;
  each_rival(f, r, trust, [&](ForeignNode a, ReferenceNode b) {
    const bool is_behind =
        own - score_.score(a, b, trust) >= clear_gap || supported - score_.support(a, b, trust) >= small_gap;
    leads = leads && is_behind;
  });
  return leads;
}

bool Rivals::other_form_taken(ReferenceNode r) const {
  const ReferenceStructure& structure = reference_.structure;
  const auto& node = structure.nodes[r];
  if (!structure.is_product_with_weights(r) || node.outputs.empty() || !node.outputs[0].exists()) return false;
  return std::ranges::any_of(structure.makers(structure.loose(node.outputs[0])), [&](ReferenceNode other) {
    return other != r && pairs_.partner(other).exists() && structure.nodes[other].op_class == node.op_class &&
           reference_.same_units(other, r);
  });
}

}  // namespace whence::match
