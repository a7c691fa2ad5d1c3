// Evaluates an expression: computes a tensor of the file from a checkpoint.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "annotator/derivation/expression.h"
#include "annotator/derivation/quantise.h"
#include "annotator/derivation/weights.h"
#include "schema/tensor_data.h"

namespace whence::derivation {

// Scales and zero points by weight and scheme: a file stores them as tensors of their own.
using KnownScales = std::map<std::string, GroupScales>;
// Returns the key of a weight's scales.
std::string scales_key(const Scheme& scheme, const Expression& weight);

struct Sources {
  const Weights& weights;
  // Returns a tensor of the file by name, for KeptStep.
  std::function<TensorData(const std::string&)> kept;
  std::shared_ptr<KnownScales> scales = {};  // null: computed each time
};

// Returns the bytes as the file stores them; the dtype of packed integers is uint8. A parameter with the dtype and
// sizes of the result is returned without a copy. Throws Error(weights_mismatch) with the parameter's name if the
// checkpoint does not have it, or has it with other sizes.
TensorData evaluate(const Expression& expression, const Sources& sources);

// Applies a step. Throws Error(corrupt_file) if it does not fit the data.
TensorData transposed(const TensorData& data, const TransposeStep& step);
TransposeStep inverse_of(const TransposeStep& step);
TensorData reshaped(TensorData data, const std::vector<std::int64_t>& dims);
// Returns the numbers as float16, put into a range before. Requires float32 if the range is limited.
TensorData rounded_to_half(const TensorData& data, const CastRange& range);
// Returns the elements that have a place in these sizes, and zeros at the other places.
TensorData resized(const TensorData& data, const std::vector<std::int64_t>& dims);

}  // namespace whence::derivation
