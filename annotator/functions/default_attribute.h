// The value that an operator of ONNX takes for an attribute that a node leaves out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace whence::functions {

// The AttributeProto message; nothing for an attribute without a default, or an operator that ONNX does not define.
std::optional<std::string> default_attribute(std::string_view domain, std::string_view op_type, std::int64_t opset,
                                             std::string_view attribute);

}  // namespace whence::functions
