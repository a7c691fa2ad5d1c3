// The error for a tensor that has fewer axes than its operator needs, which a damaged archive may state. The driver
// reports it as E0204 at the node.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace whence::convert {

struct MissingAxis : std::out_of_range {
  explicit MissingAxis(std::size_t rank)
      : std::out_of_range("a tensor of " + std::to_string(rank) + " axes does not fit the operator") {}
};

}  // namespace whence::convert
