// Nodes that whence's export stamped say themselves what they stand for; a tool that adds nodes leaves them their
// metadata.
#include "annotator/match/placement.h"
#include "annotator/origin/keys.h"
#include "annotator/origin/stamp.h"

namespace whence::match {

namespace keys = origin::keys;

void place_stamped(Placement& placement, const ForeignStructure& foreign) {
  const auto known = [&](std::int32_t op) { return static_cast<std::size_t>(op) < placement.reference.units.size(); };
  for (std::size_t i = 0; i < placement.matches.size(); ++i) {
    if (placement.foreign.nodes[i].source < 0) continue;
    const onnx_file::OnnxNode& node = *foreign.file_nodes[placement.foreign.nodes[i].source];
    const auto stamp = onnx_file::find_property(node.metadata, keys::op);
    const auto origin = stamp ? origin::parse_stamp(*stamp) : std::nullopt;
    if (!origin || !std::all_of(origin->ops.begin(), origin->ops.end(), known)) continue;
    const bool shared = origin->kind == origin::OriginKind::shared;
    const bool exact = !shared || placement.one_scope(origin->ops);
    placement.place(static_cast<std::int32_t>(i), origin->ops,
                    exact ? origin::Confidence::exact : origin::Confidence::ancestor, MatchRule::carried);
    placement.matches[i].shared = shared && origin->ops.size() > 1;
  }
}

}  // namespace whence::match
