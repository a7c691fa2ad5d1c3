// Whether a file has as many nodes for an operation as the program needs: not more, and at least one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "annotator/comparison/file_wiring.h"
#include "annotator/comparison/operation_forms.h"
#include "annotator/comparison/wiring.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/match/reference.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

// Returns the sum in integers that a node multiplies by the scales of a dynamic quantiser; "" for other nodes.
std::string_view rescaled_sum(const onnx_file::OnnxNode& node, const derivation::FileTensors& tensors);

// Returns true for the products by which a quantiser turns integer sums into numbers: the scales of input and weight,
// and their product times the sums.
bool is_rescaling(const onnx_file::OnnxNode& node, const derivation::FileTensors& tensors);

// Finds operations for which the file has more nodes with one operator than any form of the program.
class Surplus {
 public:
  // All must outlive this object. `placed` is by node.
  Surplus(const std::vector<const onnx_file::OnnxNode*>& nodes, const std::vector<Placed>& placed,
          const OperationForms& operations, const derivation::FileTensors& tensors);

  // Returns how many nodes there are, if a node is one of too many; else "".
  std::string of(std::size_t node) const;

 private:
  std::pair<std::int32_t, std::uint16_t> key_of(std::size_t node) const;

  const std::vector<const onnx_file::OnnxNode*>& nodes_;
  const std::vector<Placed>& placed_;
  const OperationForms& operations_;
  // Nodes by operation and operator's class. One that computes half of the channels is half a node.
  std::map<std::pair<std::int32_t, std::uint16_t>, double> counts_;
};

// Returns the operations for which no node stands that an output depends on: "no node stands for relu of encoder.act".
// Tools compute equal calls of a module once. `is_replaced` accepts operations for which something else stands.
std::vector<std::string> dropped_operations(const std::vector<const onnx_file::OnnxNode*>& nodes,
                                            const onnx_file::OnnxGraph& graph, const std::vector<Placed>& placed,
                                            const OperationForms& operations, const Wiring& program,
                                            const match::Reference& reference, const derivation::FileTensors& tensors,
                                            const std::function<bool(std::int32_t operation)>& is_replaced);

// Returns the operations that compute cosines and sines, with those of their module before them and their scaling: a
// file with tables of angles does not compute these.
std::set<std::int32_t> operations_of_angles(const OperationForms& operations, const Wiring& program);

}  // namespace whence::comparison
