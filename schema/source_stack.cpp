#include "schema/source_stack.h"

#include <algorithm>

namespace whence {

bool is_generated(const Frame& frame) { return frame.file.starts_with("<eval_with_key>"); }

std::string source_place(const Stack& stack) {
  const auto written = std::ranges::find_if_not(stack, is_generated);
  return written == stack.end() ? std::string() : source_place(*written);
}

}  // namespace whence
