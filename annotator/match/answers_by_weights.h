// Matching without a structure to compare with: by the parameters of a checkpoint. A node that reads parameters of one
// module belongs to that module. A node between two such readers ran within every call that encloses both.
#pragma once

#include "annotator/match/evidence.h"
#include "annotator/match/placement.h"
#include "annotator/match/tensor_sources.h"

namespace whence::match {

// `placement` has a reference made from a checkpoint and no answers yet. `evidence` of names refines an answer and
// never contradicts it.
void place_by_weights(Placement& placement, const TensorSources& tensors, const EvidenceTable& evidence);

}  // namespace whence::match
