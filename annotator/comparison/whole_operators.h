// WholeOperators: whether a node computes the function of its operation, or a part of it. An operation is written
// either with one operator that computes all of it, or in parts: an activation beside the complete operator, and a part
// that stands alone, compute something else.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "annotator/comparison/file_wiring.h"
#include "annotator/comparison/operation_forms.h"
#include "annotator/derivation/derive.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

class WholeOperators {
 public:
  // All must outlive this object. `placed` is by node.
  WholeOperators(const std::vector<const onnx_file::OnnxNode*>& nodes, const std::vector<Placed>& placed,
                 const OperationForms& operations, const derivation::FileTensors& tensors,
                 const std::vector<derivation::Derivation>& derivations);

  // Returns what a node computes beyond its operations, or instead of them; "" if nothing is known.
  std::string difference(std::size_t node) const;

 private:
  using Operations = std::vector<std::int32_t>;
  using Classes = std::set<std::uint16_t>;
  // Returns the classes of the functions that a form computes for the operation, for each form.
  std::vector<Classes> functions_of(std::int32_t operation) const;
  // An operator beside the one that computes the whole operation.
  std::string beside_whole(std::size_t node) const;
  // One that no form of the program has, alone, where it is a part.
  std::string lone_part(std::size_t node) const;
  // Sub for Add, and the reverse, need a negated operand.
  std::string other_sign(const onnx_file::OnnxNode& node, const Operations& operations) const;
  // A power with an exponent that is no number of the program.
  std::string other_power(const onnx_file::OnnxNode& node, const Operations& operations) const;
  bool any_has(const Operations& operations, std::string_view op_type) const;
  bool is_of_parameters(std::string_view value) const;

  const std::vector<const onnx_file::OnnxNode*>& nodes_;
  const std::vector<Placed>& placed_;
  const OperationForms& operations_;
  const derivation::FileTensors& tensors_;
  const std::vector<derivation::Derivation>& derivations_;
  std::map<std::int32_t, Classes> standing_;  // classes of the nodes that stand for an operation
};

}  // namespace whence::comparison
