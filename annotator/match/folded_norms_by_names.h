// Convolutions that absorbed the norm after them, in a file without a reference, where only names show it. Exporters
// fold a BatchNorm into the convolution before it and name the result after either, so the answer is the module around
// both.
#pragma once

#include <vector>

#include "annotator/match/evidence.h"
#include "annotator/match/placement.h"

namespace whence::match {

// Places a convolution that may have absorbed a norm in the module around both: it has a bias that is not the module's
// own, or any bias if only parameters name the module. The file does not show which module was folded.
// PyTorch's exporter gives a folded convolution the keys of the norm, and its weight the name of the convolution: then
// both modules are known, and nothing was folded if they are the same.
void raise_folded_convolution(Placement& placement, ForeignNode node, const std::vector<Evidence>& evidence);

// Places all nodes named after an integer convolution that absorbed a norm in the module around both. The convolution
// has no bias to show it; the name of its weight does, which is no longer that of a parameter. The nodes named after it
// scale its operands and its result.
void raise_folded_integer_convolutions(Placement& placement);

}  // namespace whence::match
