// Names of dynamic sizes of a graph's inner values. ONNX's inference loses a name when a size is computed (Reshape to
// -1, Expand, a product that is split again), but finds the number if the inputs have numbers. So inference runs twice
// more, with different numbers for the sizes of the inputs. A size that equals the same input size both times gets its
// name.
#pragma once

#include <string>

#include "annotator/functions/value_types.h"

namespace whence::functions {

class NamedSizes {
 public:
  // Runs ONNX's inference twice if an input has a dynamic size with a name.
  explicit NamedSizes(const ModelParts& parts);

  // Names the unknown sizes in `type`, the type of the value `name`, that equal a named size of an input.
  void fill_in(const std::string& name, onnx::TypeProto& type) const;

 private:
  std::string name_of(const std::string& value, int axis, int rank) const;

  Sizes first_sizes_, second_sizes_;
  ValueTypes first_types_, second_types_;
};

}  // namespace whence::functions
