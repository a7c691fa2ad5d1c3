// The real numbers that the integers of a quantised weight stand for.
#pragma once

#include <optional>

#include "annotator/derivation/contents.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/likeness.h"
#include "annotator/derivation/quantise.h"

namespace whence::derivation {

// Returns the scales and zero points that the file stores for a weight; nullopt if there are none, or if the parts do
// not fit each other.
std::optional<GroupScales> stored_groups(const FileTensors& tensors, Contents& contents, const QuantisedWeight& weight);

// Return nullopt if there are no scales, or if the parts do not fit each other. The result owns its bytes.
std::optional<SampledTensor> dequantised(const FileTensors& tensors, Contents& contents, const QuantisedWeight& weight);
std::optional<SampledTensor> dequantised(const FileTensors& tensors, Contents& contents, const QuantisedBias& bias);

}  // namespace whence::derivation
