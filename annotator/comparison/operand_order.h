// Compares the order of a node's operands with that in the program: minuend and subtrahend, the branches of Where, the
// parts of Concat.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/comparison/operation_forms.h"
#include "annotator/comparison/wiring.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

// Returns true for an operator whose operands cannot be exchanged.
bool is_ordered(std::string_view op_type);

class OperandOrder {
 public:
  // All must outlive this object.
  OperandOrder(const OperationForms& forms, const Wiring& program, const derivation::FileTensors& tensors)
      : forms_(forms), program_(program), tensors_(tensors) {}

  // Returns the operations that compute a value of the file, before movements; empty if they are unknown or uncertain.
  using MakersOf = std::function<std::vector<std::int32_t>(std::string_view value)>;
  // Returns what differs; "" if nothing.
  std::string difference(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations,
                         const MakersOf& makers_of) const;

 private:
  // The operations that compute an operand, or `constant`; empty: unknown. Calls of one module count as one.
  using Operand = std::set<std::int32_t>;
  Operand operand_of(const onnx_file::OnnxNode& node, std::size_t slot, const MakersOf& makers_of) const;
  Operand operand_of(const OperationForms::FormNode& form, std::size_t slot) const;
  // Returns true if a condition is negated an odd number of times.
  bool is_negated(std::string_view condition) const;
  static bool is_negated(const graph::Graph& graph, graph::GraphValueId condition);
  std::string value_read_twice(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations) const;

  const OperationForms& forms_;
  const Wiring& program_;
  const derivation::FileTensors& tensors_;
};

}  // namespace whence::comparison
