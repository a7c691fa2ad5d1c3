// Counts how well a foreign file fits the reference: parameters by name, bytes and shape, nodes by structure.
#pragma once

#include "annotator/match/match.h"
#include "annotator/match/placement.h"
#include "annotator/match/tensor_sources.h"

namespace whence::match {

ModelFit model_fit(const Placement& placement, const TensorSources& tensors);

}  // namespace whence::match
