// Saturation: integers of a quantiser end at the smallest and largest number that they represent. Quantisers drop an
// activation that cuts off nothing more.
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "annotator/derivation/contents.h"
#include "annotator/derivation/file_tensors.h"

namespace whence::comparison {

class Saturation {
 public:
  // All must outlive this object.
  Saturation(const derivation::FileTensors& tensors, derivation::Contents& contents)
      : tensors_(tensors), contents_(contents) {}

  // Returns true if a node writes integers that represent no number outside of the bounds.
  bool is_within(const onnx_file::OnnxNode& node, const std::pair<double, double>& bounds) const;

 private:
  const derivation::FileTensors& tensors_;
  derivation::Contents& contents_;
};

}  // namespace whence::comparison
