// The dtypes that an ONNX operator takes at an opset, as onnx's own schemas say, and what to compute in where it does
// not take what it is given: bfloat16 reached many operators late, and narrow integers never reached MatMul.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/dtype.h"

namespace whence::convert {

// For a node of the standard domain: the dtype each input has to be cast to, and those that the outputs must be cast
// back to (undefined: as they are).
struct WidenedTypes {
  std::vector<DType> inputs;
  std::vector<DType> outputs;
  DType refused = DType::undefined;  // else: what the operator does not take, and nothing wider either

  bool operator==(const WidenedTypes&) const = default;
};

// nullopt when the operator takes the inputs as they are, or is unknown at this opset.
// `inputs`: undefined for absent inputs and unknown dtypes.
std::optional<WidenedTypes> widened_types(std::string_view op_type, int opset, const std::vector<DType>& inputs,
                                          int outputs);

}  // namespace whence::convert
