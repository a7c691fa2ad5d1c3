#include "annotator/match/answers_by_weights.h"

#include <algorithm>

#include "annotator/match/checked_names.h"
#include "annotator/match/folded_norms_by_weights.h"
#include "annotator/match/fused_operators.h"
#include "annotator/match/nearest_modules.h"
#include "annotator/match/nodes_between_weights.h"
#include "annotator/match/spelled_out_norms.h"
#include "annotator/match/tensor_owners.h"
#include "annotator/match/weight_readers.h"

namespace whence::match {

using origin::Confidence;

namespace {

// Raises a fused operator to the module around its own and the module of the neighbour that it absorbed.
void raise_fused(Placement& placement, const NearestModules& nearest, ForeignNode node) {
  const auto& entry = placement.foreign.nodes[node];
  if (!nearest.is_known(node) || !absorbs_neighbour(entry)) return;
  const std::vector<ScopeIndex> own = {placement.matches[node].scope};
  placement.place_inside(node, is_skip_norm(entry.op_type) ? nearest.around(nearest.before(node), own)
                                                           : nearest.around(own, nearest.after(node)));
}

// Raises a node before a QuantizeLinear, which clips like an activation. Tools then remove the activation, so the node
// may represent it as well.
void raise_clipped(Placement& placement, ForeignNode node) {
  const NodeMatch& match = placement.matches[node];
  const auto readers = placement.readers(node);
  const bool is_clipped = !readers.empty() && std::ranges::all_of(readers, [&](ForeignNode reader) {
    return placement.foreign.nodes[reader].op_type == "QuantizeLinear";
  });
  const bool is_heavy = placement.foreign.nodes[node].kind == NodeKind::heavy;
  if (!is_clipped || match.confidence != Confidence::inferred || !is_heavy) return;
  placement.place_inside(node, match.units.size() > 1 ? match.scope : placement.reference.scopes[match.scope].parent);
}

}  // namespace

void place_by_weights(Placement& placement, const TensorSources& tensors, const EvidenceTable& evidence) {
  const auto& order = placement.foreign.order;
  const TensorOwners owners(placement.foreign, placement.reference, tensors);
  FoldedNorms norms(placement, owners);
  WeightReaders(placement, owners, norms).place();
  const CheckedNames names(placement, owners, evidence);
  const NearestModules nearest(placement, owners);
  SpelledOutNorms spelled_out(placement, nearest);
  NodesBetweenWeights between(placement, owners, norms, names, nearest);
  for (const ForeignNode node : order) raise_fused(placement, nearest, node);
  for (const ForeignNode node : order) spelled_out.place_before(node);
  for (const ForeignNode node : order) between.place_computing(node);
  for (auto node = order.rbegin(); node != order.rend(); ++node) between.place_constant(*node);
  for (const ForeignNode node : order) raise_clipped(placement, node);
}

}  // namespace whence::match
