// Operators of ONNX by what they do with numbers.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace whence::derivation {

// Returns true for products with a weight.
bool multiplies(std::string_view op_type);
// Returns the input with the bias of a product; nullopt for other operators.
std::optional<std::size_t> bias_slot(std::string_view op_type);

// Returns true for operators that keep each element, or convert it to another type.
bool is_movement(std::string_view op_type);
// Returns true for operators that compute numbers from all elements. Others choose elements, or compute sizes,
// conditions and masks, which tools compute at other places and once for several operations.
bool is_arithmetic(std::string_view op_type);

}  // namespace whence::derivation
