// Folds a norm with fixed statistics into the product before it, in the arithmetic of different tools:
//
//   weight * scale / sqrt(variance + epsilon)
//   (bias - mean) * scale / sqrt(variance + epsilon) + shift
//
// Source: Jacob et al., Quantization and Training of Neural Networks, 2018, section 3.2.
#pragma once

#include <vector>

#include "annotator/derivation/expression.h"
#include "schema/tensor_data.h"

namespace whence::derivation {

// `inputs`: float32; see FoldStep. The weight keeps its sizes.
TensorData folded(const FoldStep& step, const std::vector<TensorData>& inputs);

}  // namespace whence::derivation
