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
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::derivation {

class ProductParts {
 public:
  // All must outlive this object.
  ProductParts(std::vector<ProductChain> chains, const FileTensors& tensors, const std::vector<Derivation>& derivations,
               Contents& contents);

  // Returns what a node does otherwise; "" if nothing.
  std::string difference(const onnx_file::OnnxNode& node) const;

 private:
  const Expression* expression_of(TensorNumber tensor) const;
  // Returns the weight of the product from which a value is computed by movements, and by sums with constants if
  // `after_sums`.
  TensorNumber weight_before(std::string_view value, bool after_sums) const;
  std::string of_pair(TensorNumber weight, TensorNumber bias) const;
  std::string other_bias(const Expression& weight, const Expression& bias) const;
  std::string other_norm(const Expression& weight, const Expression& bias) const;
  std::string other_factor(const Expression& weight, const Expression& bias) const;
  std::string of_zeros(const Expression& weight, TensorNumber bias) const;
  std::string of_factor(TensorNumber weight, TensorNumber factor) const;

  std::vector<ProductChain> chains_;
  std::map<std::string, std::set<std::string>, std::less<>> biases_;  // of the program, by weight
  std::set<std::string, std::less<>> all_biases_;
  const FileTensors& tensors_;
  const std::vector<Derivation>& derivations_;
  Contents& contents_;
};

}  // namespace whence::derivation
