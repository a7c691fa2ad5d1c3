// Cuts: nodes that only cut off numbers, and at which bounds: Relu, Clip, and Max and Min with a number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annotator/comparison/operation_forms.h"
#include "annotator/derivation/contents.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

class Cuts {
 public:
  // All must outlive this object.
  Cuts(const OperationForms& operations, const derivation::FileTensors& tensors, derivation::Contents& contents)
      : operations_(operations), tensors_(tensors), contents_(contents) {}

  // Returns true if the operations cut off numbers at the bounds of the node, or of the nodes next to it together.
  bool fits(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations) const;
  // Returns what differs if both bounds are known; "" otherwise.
  std::string difference(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations) const;

 private:
  using Bounds = std::pair<double, double>;
  std::optional<Bounds> bounds_of(const onnx_file::OnnxNode& node) const;
  std::optional<double> number_in(const onnx_file::OnnxNode& node, std::size_t slot) const;
  // Returns the bounds of a node and those next to it.
  Bounds all_bounds(const onnx_file::OnnxNode& node, Bounds own) const;

  const OperationForms& operations_;
  const derivation::FileTensors& tensors_;
  derivation::Contents& contents_;
};

}  // namespace whence::comparison
