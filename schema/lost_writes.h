// The warning for a write that outlives the call in PyTorch. An ONNX file starts each run anew and leaves its inputs as
// they are. The recorder, the reader of .pt2 files and the lowering all word it here.
#pragma once

#include <string>

#include "whence/diagnostics.h"

namespace whence {

// The target of a write: a parameter or buffer; a tensor that the model holds in another way (an attribute, a global,
// an element of a list), which archives keep as a constant; an attribute that is set anew; an element of a list or dict
// that is an attribute; an input.
enum class WrittenTo : std::uint8_t { state, constant, attribute, element, input };

// `name`: as users know it; empty, or a number that TorchScript gave, where a constant has none.
Diagnostic lost_write(WrittenTo kind, const std::string& name, Place where);

}  // namespace whence
