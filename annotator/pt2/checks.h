// Operators that only check assumptions made at export; they compute nothing.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace whence::pt2 {

// Returns true for operators that only check, such as "torch.ops.aten._assert_scalar.default".
constexpr bool is_check(std::string_view target) {
  constexpr std::array<std::string_view, 9> checks = {"_assert_tensor_metadata",
                                                      "_linalg_check_errors",
                                                      "_assert_async",
                                                      "_assert_scalar",
                                                      "sym_constrain_range",
                                                      "sym_constrain_range_for_size",
                                                      "_functional_assert_async",
                                                      "_functional_sym_constrain_range",
                                                      "_functional_sym_constrain_range_for_size"};
  constexpr std::string_view aten = "torch.ops.aten.";
  if (!target.starts_with(aten)) return false;
  target.remove_prefix(aten.size());
  return std::ranges::find(checks, target.substr(0, target.find('.'))) != checks.end();
}

}  // namespace whence::pt2
