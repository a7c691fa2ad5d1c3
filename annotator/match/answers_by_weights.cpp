#include "annotator/match/answers_by_weights.h"

#include <algorithm>

#include "annotator/match/checked_names.h"
#include "annotator/match/folded_norms_by_weights.h"
#include "annotator/match/fused_operators.h"
#include "annotator/match/nearest_modules.h"
#include "annotator/match/nodes_between_weights.h"
#include "annotator/match/spelled_out_norms.h"
#include "annotator/match/weight_readers.h"
#include "annotator/match/weights_held.h"

namespace whence::match {

using origin::Confidence;

namespace {

// Raises a fused operator to the module around its own and the module of the neighbour that it took in.
void raise_fused(Placement& placement, const NearestModules& nearest, ForeignNode node) {
  const auto& entry = placement.foreign.nodes[node];
  if (!nearest.is_known(node) || !took_in_neighbour(entry)) return;
  const std::vector<ScopeIndex> own = {placement.matches[node].scope};
  placement.place_inside(node, is_skip_norm(entry.op_type) ? nearest.around(nearest.before(node), own)
                                                           : nearest.around(own, nearest.after(node)));
}

// Raises a node before a QuantizeLinear, which clips like an activation. Tools then leave the activation out, so the
// node may be that of an activation, too.
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
  const WeightsHeld held(placement.foreign, placement.reference, tensors);
  FoldedNorms norms(placement, held);
  WeightReaders(placement, held, norms).place();
  const CheckedNames names(placement, held, evidence);
  const NearestModules nearest(placement, held);
  SpelledOutNorms spelled_out(placement, nearest);
  NodesBetweenWeights between(placement, held, norms, names, nearest);
  for (const ForeignNode node : order) raise_fused(placement, nearest, node);
  for (const ForeignNode node : order) spelled_out.place_before(node);
  for (const ForeignNode node : order) between.place_computing(node);
  for (auto node = order.rbegin(); node != order.rend(); ++node) between.place_constant(*node);
  for (const ForeignNode node : order) raise_clipped(placement, node);
}

}  // namespace whence::match
