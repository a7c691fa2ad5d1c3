// Names of dynamic sizes of the values inside a graph. ONNX's inference loses them where a size is computed (Reshape to
// -1, Expand, a product that was split again), though it would find the number if the inputs had numbers. So it is run
// twice more, with other numbers for the sizes of the inputs each time: a size that is an input's both times has its
// name.
#pragma once

#include <string>

#include "annotator/functions/value_types.h"

namespace whence::functions {

class NamedSizes {
 public:
  // Runs ONNX's inference twice, unless no input has a dynamic size with a name.
  explicit NamedSizes(const ModelParts& parts);

  // Gives the sizes of the value `name`, which `type` leaves open, the names of the inputs' sizes; none to the others.
  void fill_in(const std::string& name, onnx::TypeProto& type) const;

 private:
  std::string name_of(const std::string& value, int axis, int rank) const;

  Sizes first_sizes_, second_sizes_;
  ValueTypes first_, second_;
};

}  // namespace whence::functions
