// Operators that ONNX defines, in any domain and version.
#pragma once

#include <string_view>

namespace whence::match {

bool is_onnx_operator(std::string_view name);

}  // namespace whence::match
