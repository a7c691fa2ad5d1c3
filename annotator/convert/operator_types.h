// The dtypes that an ONNX operator accepts at an opset, from onnx's own schemas, and the wider dtype to compute in if
// it does not accept its inputs: bfloat16 reached many operators late, and MatMul never got narrow integers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/dtype.h"

namespace whence::convert {

// For a node of the standard domain: the dtypes to which to cast each input, and each output back (undefined: no cast).
struct WidenedTypes {
  std::vector<DType> inputs;
  std::vector<DType> outputs;
  DType refused = DType::undefined;  // if set: the dtype of an input that has no accepted wider dtype

  bool operator==(const WidenedTypes&) const = default;
};

// Returns nullopt if the operator accepts the inputs as they are, or is unknown at this opset. `inputs`: undefined for
// absent inputs and unknown dtypes.
std::optional<WidenedTypes> widened_types(std::string_view op_type, int opset, const std::vector<DType>& inputs,
                                          int outputs);

}  // namespace whence::convert
