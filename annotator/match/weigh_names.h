// Decides between the answer of structure and the module that a node's name or keys state.
#pragma once

#include <vector>

#include "annotator/match/evidence.h"
#include "annotator/match/placement.h"

namespace whence::match {

// Certain answers of structure prevail over names. If structure is not certain, names and keys decide.
void weigh_names(Placement& placement, ForeignNode node, const std::vector<Evidence>& evidence);

}  // namespace whence::match
