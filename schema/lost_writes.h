// The warning for a write that outlives the call in PyTorch: runs of an ONNX file keep no state and do not change
// inputs. The recorder, the reader of .pt2 files and the lowering share this text.
#pragma once

#include <string>

#include "whence/diagnostics.h"

namespace whence {

// The target of a write. state: a parameter or buffer. constant: another tensor of the model (an attribute, a global,
// an element of a list), which archives store as a constant. attribute: an attribute that is assigned. element: an
// element of a list or dict in an attribute.
enum class WrittenTo : std::uint8_t { state, constant, attribute, element, input };

// `name`: the name that users know; for a constant without a name, empty or TorchScript's number.
Diagnostic lost_write(WrittenTo kind, const std::string& name, Place where);

}  // namespace whence
