// Sizes and strides as products, so that they can be compared: a stride is the product of the sizes behind its axis.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whence::pt2 {

struct SizeProduct {
  std::int64_t number = 1;
  std::vector<std::string> factors;  // sympy's trees, in order

  bool operator==(const SizeProduct&) const = default;
};

// Reads one of sympy's trees: "Mul(Integer(2), Symbol('s0'))". "Max(Integer(1), X)" is X: of a tensor without elements
// the strides do not matter. nullopt for what is too long to compare.
std::optional<SizeProduct> size_product(std::string_view tree);

// nullopt where the number would be beyond 64 bits, or factors too many.
std::optional<SizeProduct> multiplied(const SizeProduct& one, const SizeProduct& other);

}  // namespace whence::pt2
