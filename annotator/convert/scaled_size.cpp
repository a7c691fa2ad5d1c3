#include "annotator/convert/scaled_size.h"

#include <cmath>
#include <limits>

namespace whence::convert {

namespace {

constexpr std::int64_t largest = std::int64_t{1} << 14U;
std::int64_t size_in_pytorch(std::int64_t size, double factor) {
  return whole_size(static_cast<double>(size) * factor);
}

bool any_size(const auto& holds) {
  for (std::int64_t size = 1; size <= largest; ++size) {
    if (holds(size)) return true;
  }
  return false;
}

}  // namespace

std::int64_t whole_size(double at) {
  constexpr double max_size = 1e18;
  return at >= 0 && at <= max_size ? static_cast<std::int64_t>(std::floor(at)) : -1;
}

std::int64_t scaled_size(std::int64_t size, float factor) { return whole_size(static_cast<float>(size) * factor); }

float factor_for_any_size(double factor) {
  const auto rounded = static_cast<float>(factor);
  const auto is_short = [&](std::int64_t size) { return scaled_size(size, rounded) < size_in_pytorch(size, factor); };
  return any_size(is_short) ? std::nextafter(rounded, std::numeric_limits<float>::infinity()) : rounded;
}

bool may_round_up(double factor) {
  const float written = factor_for_any_size(factor);
  return any_size([&](std::int64_t size) { return scaled_size(size, written) > size_in_pytorch(size, factor); });
}

bool may_keep_size(double factor) { return factor > 1 && factor < 1.5; }

Val size_by_factor(Ctx& c, Val x, std::int64_t axis, double factor) {
  const Val size = c.cast(c.dim_of(x, axis), DType::float64);
  return c.cast(c.emit("Mul", {size, c.constant_number(factor, DType::float64)}), DType::int64);
}

}  // namespace whence::convert
