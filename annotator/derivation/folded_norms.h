// FoldedNorms: finds the norm of a checkpoint that a tool folded into a weight, by the factor of each channel.
#pragma once

#include <vector>

#include "annotator/derivation/expression.h"
#include "annotator/derivation/likeness.h"
#include "annotator/derivation/norm_pairs.h"
#include "annotator/derivation/weights.h"

namespace whence::derivation {

// Returns the factor of each channel between `real` and the tensor, by least squares over some of its elements; NaN for
// a channel of zeros. Empty if `real` has no such axis.
std::vector<double> factors_of(const TensorData& real, const SampledTensor& tensor, std::int64_t axis);

// Returns the name of the bias beside a weight, "encoder.fc.bias"; "" if the checkpoint has none. A weight that is
// computed from parameters may have these in modules of its own.
std::string bias_beside(const Expression& weight, const Weights& weights);

class FoldedNorms {
 public:
  // `pairs`: of the recorded program, if there is one. Both must outlive this object.
  FoldedNorms(const Weights& weights, const std::vector<NormPair>& pairs);

  // Returns `weight` with the norm that explains the factors between it and the tensor, in each arithmetic; empty if no
  // norm does. `real`: the values of `weight`. `axis`: the axis of the output channels.
  std::vector<Expression> candidates(const Expression& weight, const TensorData& real, const SampledTensor& tensor,
                                     std::int64_t axis) const;

  // Returns the weights with these sizes that a norm follows in the program, with that norm, in each arithmetic.
  std::vector<Expression> pairs_of(const std::vector<std::int64_t>& dims) const;

  // Returns the name of the parameter that a norm was folded into, in a weight's expression; empty without a norm.
  static std::string folded_weight(const Expression& weight);

  // Returns the biases that belong to a weight: the parameter beside it, with the norm that was folded into the weight.
  std::vector<Expression> bias_candidates(const Expression& weight) const;

 private:
  struct Norm {
    std::string module;
    const TensorData *scale = nullptr, *shift = nullptr, *mean = nullptr, *variance = nullptr;
    std::int64_t channels = 0;
  };
  Expression parameter(const std::string& name) const;
  std::vector<Expression> inputs_of(const Norm& norm) const;

  const Weights& weights_;
  const std::vector<NormPair>& pairs_;
  std::vector<Norm> norms_;
};

}  // namespace whence::derivation
