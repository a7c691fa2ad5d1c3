// FoldedVectors: finds the numbers by channel that a tool multiplied into a weight and added to its bias: the scale of
// a layer, a norm that the model computes from its statistics, a single factor.
#pragma once

#include <set>
#include <vector>

#include "annotator/derivation/expression.h"
#include "annotator/derivation/likeness.h"
#include "annotator/derivation/product_chains.h"
#include "annotator/derivation/weights.h"

namespace whence::derivation {

class FoldedVectors {
 public:
  // `chains`: of the recorded program, if there is one. Both must outlive this object.
  FoldedVectors(const Weights& weights, const std::vector<ProductChain>& chains) : weights_(weights), chains_(chains) {}

  // Returns `weight` times each tensor of the checkpoint, of what the program computes from it, or number by which the
  // program multiplies its product, that explains the factors between it and `tensor`. `real`: the values of `weight`.
  // `axis`: the axis of the output channels.
  std::vector<Expression> candidates(const Expression& weight, const TensorData& real, const SampledTensor& tensor,
                                     std::int64_t axis) const;

  // Returns the weights with these sizes whose product the program multiplies by a parameter, with that factor:
  // integers of a weight whose channels differ much in size are like no parameter.
  std::vector<Expression> scaled_weights(const std::vector<std::int64_t>& dims) const;

  // Returns the factor in the expression of a weight or bias; null if there is none.
  static const Expression* factor_of(const Expression& expression);
  static bool is_scaled(const Expression& weight) { return factor_of(weight) != nullptr; }

  // Returns the biases that belong to a weight with a factor: the one beside it times the factor, and with each vector
  // of the checkpoint or the program added.
  std::vector<Expression> bias_candidates(const Expression& weight) const;

 private:
  // Returns the factors for the products with a weight that come from no parameter.
  std::set<float> numbers_of(const Expression& weight) const;

  const Weights& weights_;
  const std::vector<ProductChain>& chains_;
};

}  // namespace whence::derivation
