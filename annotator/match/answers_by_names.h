// Matching without a structure or a checkpoint to compare with: by names and keys, and by the neighbours of a node.
#pragma once

#include "annotator/match/evidence.h"
#include "annotator/match/placement.h"
#include "annotator/match/scope_in_name.h"

namespace whence::match {

// `placement` has a reference made from names and no answers yet. Sets the scopes in `evidence` of parameters.
void place_by_names(Placement& placement, const ScopeReader& reader, EvidenceTable& evidence);

}  // namespace whence::match
