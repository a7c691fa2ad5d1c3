// ProductParts: the weight and the bias of a product belong together. A bias is the one that the program adds to this
// product, a factor or norm that a tool folded into the weight is in the bias as well, and no node applies it again.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annotator/derivation/contents.h"
#include "annotator/derivation/derive.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/product_chains.h"
#include "annotator/derivation/weights.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

class ProductParts {
 public:
  // All must outlive this object.
  ProductParts(std::vector<derivation::ProductChain> chains, const derivation::FileTensors& tensors,
               const std::vector<derivation::Derivation>& derivations, derivation::Contents& contents,
               const derivation::Weights& weights);

  // Returns what a node does otherwise; "" if nothing.
  std::string difference(const onnx_file::OnnxNode& node) const;

 private:
  const derivation::Expression* expression_of(derivation::TensorNumber tensor) const;
  // Returns the weight of the product from which a value is computed by movements, and by sums with constants if
  // `after_sums`.
  derivation::TensorNumber weight_before(std::string_view value, bool after_sums) const;
  std::string of_pair(derivation::TensorNumber weight, derivation::TensorNumber bias) const;
  std::string other_bias(const derivation::Expression& weight, const derivation::Expression& bias) const;
  // Returns true if each of these biases, or each part of it, has the same numbers as a bias: zeros, before a training.
  bool are_equal(const derivation::Expression& bias, const std::set<std::string, std::less<>>& expected) const;
  bool is_zero(const std::string& parameter) const;
  std::string other_norm(const derivation::Expression& weight, const derivation::Expression& bias) const;
  std::string other_factor(const derivation::Expression& weight, const derivation::Expression& bias) const;
  std::string of_zeros(const derivation::Expression& weight, derivation::TensorNumber bias) const;
  std::string of_factor(derivation::TensorNumber weight, derivation::TensorNumber factor) const;

  std::vector<derivation::ProductChain> chains_;
  std::map<std::string, std::set<std::string>, std::less<>> biases_;  // of the program, by weight
  std::set<std::string, std::less<>> all_biases_;
  const derivation::FileTensors& tensors_;
  const std::vector<derivation::Derivation>& derivations_;
  derivation::Contents& contents_;
  const derivation::Weights& weights_;
};

}  // namespace whence::comparison
