// FoldedVectors: finds the numbers by channel that a tool multiplied into a weight and added to its bias: the scale of
// a layer, a norm that the model computes from its statistics, a single factor.
#pragma once

#include <vector>

#include "annotator/derivation/expression.h"
#include "annotator/derivation/likeness.h"
#include "annotator/derivation/weights.h"

namespace whence::derivation {

class FoldedVectors {
 public:
  explicit FoldedVectors(const Weights& weights) : weights_(weights) {}

  // Returns `weight` times each tensor of the checkpoint, or of what the program computes from it, that explains the
  // factors between it and `tensor`. `real`: the values of `weight`. `axis`: the axis of the output channels.
  std::vector<Expression> candidates(const Expression& weight, const TensorData& real, const SampledTensor& tensor,
                                     std::int64_t axis) const;

  // Returns true if such a factor is in the expression of a weight.
  static bool is_scaled(const Expression& weight);

  // Returns the biases that belong to a weight with a factor: the one beside it times the factor, and with each vector
  // of the checkpoint or the program added.
  std::vector<Expression> bias_candidates(const Expression& weight) const;

 private:
  const Weights& weights_;
};

}  // namespace whence::derivation
