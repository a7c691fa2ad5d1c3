#include "annotator/convert/axes.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace whence::convert {

Ints axis_order(int rank) {
  Ints order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Ints exchanged_axes(int rank, std::int64_t a, std::int64_t b) {
  if (std::min(a, b) < 0 || std::max(a, b) >= rank) throw MissingAxis(static_cast<std::size_t>(rank));
  Ints order = axis_order(rank);
  std::swap(order[static_cast<std::size_t>(a)], order[static_cast<std::size_t>(b)]);
  return order;
}

}  // namespace whence::convert
