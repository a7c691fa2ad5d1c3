// The default that ONNX defines for an attribute that a node leaves out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace whence::functions {

// Returns the default as AttributeProto message; nullopt if the attribute has none or ONNX does not define the
// operator.
std::optional<std::string> default_attribute(std::string_view domain, std::string_view op_type, std::int64_t opset,
                                             std::string_view attribute);

}  // namespace whence::functions
