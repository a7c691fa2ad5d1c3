// Contradictions: what the operator, the attributes or the inputs of a node do and its operations do not.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "annotator/comparison/operation_forms.h"
#include "annotator/derivation/contents.h"
#include "annotator/derivation/derive.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

class Contradictions {
 public:
  // All must outlive this object.
  Contradictions(const OperationForms& operations, const derivation::FileTensors& tensors,
                 const std::vector<derivation::Derivation>& derivations, derivation::Contents& contents);

  // Returns the first that is found; "" if there is none. `is_drafted`: the node is a part of a fused one
  // (written_out.h).
  std::string of(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations, bool is_drafted) const;

 private:
  using Operations = std::vector<std::int32_t>;
  bool any_has(const Operations& operations, std::string_view op_type) const;
  // A norm that subtracts the mean is no norm by the root of the mean square.
  std::string other_norm(const onnx_file::OnnxNode& node, const Operations& operations) const;
  std::string other_activation(const onnx_file::OnnxNode& node, const Operations& operations) const;
  // Another function of the same family: QuickGelu for Gelu, Selu for Elu, LogSoftmax for Softmax.
  std::string other_function(const onnx_file::OnnxNode& node, const Operations& operations) const;
  std::string other_factor(const onnx_file::OnnxNode& node, const Operations& operations) const;
  // The bias of a product comes from a parameter, or is zeros where the program has none.
  std::string constant_bias(const onnx_file::OnnxNode& node) const;
  // A norm in the weight of a product is also in a bias.
  std::string missing_shift(const onnx_file::OnnxNode& node) const;
  // The pairs of elements that a rotation turns: halves, or neighbours.
  std::string other_pairs(const onnx_file::OnnxNode& node, const Operations& operations) const;

  const OperationForms& operations_;
  const derivation::FileTensors& tensors_;
  const std::vector<derivation::Derivation>& derivations_;
  derivation::Contents& contents_;
  std::set<std::string> shifting_;  // parameters of the norms in biases
};

}  // namespace whence::comparison
