// Matching by weights alone: a checkpoint is at hand, and no recording. A node that reads parameters of one module is
// of that module. Of what lies between two such nodes is known that it ran between them, and so within every call that
// holds both: the innermost such module holds the node, and where that module has no modules in it, it is the one.
#pragma once

#include "annotator/match/evidence.h"
#include "annotator/match/placement.h"
#include "annotator/match/tensor_sources.h"

namespace whence::match {

// `placement` has a reference made of weights and no answers yet. `evidence`: what names say, which refines an answer
// and never contradicts it.
void place_by_weights(Placement& placement, const TensorSources& tensors, const EvidenceTable& evidence);

}  // namespace whence::match
