// Biases as evidence of modules: of their product before growth, and of the nodes that add them after placement.
#pragma once

#include "annotator/match/evidence.h"
#include "annotator/match/placement.h"
#include "annotator/match/structure.h"

namespace whence::match {

// Copies the evidence for a bias's parameter to the product before the bias. If the product's own weights were changed,
// the bias distinguishes it from others of the same sizes.
void copy_bias_evidence(const ForeignStructure& structure, EvidenceTable& evidence);

// Places an Add in the module of its bias if this is clearly not the module that its position suggests: a tool may have
// exchanged the operands of the next node.
void apply_bias_owners(Placement& placement, const EvidenceTable& evidence);

}  // namespace whence::match
