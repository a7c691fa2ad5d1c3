// Places nodes that whence's export stamped: their metadata lists the operations that they represent, and a tool that
// only adds nodes keeps it.
#include "annotator/match/placement.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/origin/stamp.h"

namespace whence::match {

namespace keys = origin::keys;

void place_stamped(Placement& placement, const FileStructure<Side::foreign>& foreign) {
  const UnitIndex end(placement.reference.units.size());
  for (const ForeignNode i : placement.matches.keys()) {
    if (!placement.foreign.nodes[i].source.exists()) continue;
    const onnx_file::OnnxNode& node = *foreign.file_nodes[placement.foreign.nodes[i].source];
    const auto stamp = onnx_file::find_property(node.metadata, keys::op);
    const auto origin = stamp ? origin::parse_stamp(*stamp) : std::nullopt;
    if (!origin) continue;
    const std::vector<UnitIndex> units(origin->ops.begin(), origin->ops.end());
    const auto known = [&](UnitIndex unit) { return unit.exists() && unit < end; };
    if (!std::ranges::all_of(units, known)) continue;
    const bool shared = origin->kind == origin::OriginKind::shared;
    const bool exact = !shared || placement.one_scope(units);
    const auto confidence = exact ? origin::Confidence::exact : origin::Confidence::ancestor;
    placement.place(i, units, origin::limited_by(node.domain, confidence), MatchRule::carried);
    placement.matches[i].shared = shared && units.size() > 1;
  }
}

}  // namespace whence::match
