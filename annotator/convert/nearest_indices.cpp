#include "annotator/convert/nearest_indices.h"

#include <algorithm>
#include <cmath>

#include "annotator/convert/scaled_size.h"

namespace whence::convert {

namespace {

constexpr std::int64_t longest_table = std::int64_t{1} << 16U;  // indices stored in the file

// PyTorch's CPU kernels multiply by the inverse of the factor in float32, and with pixel centres round once
// (aten/src/ATen/native/UpSample.h and cpu/UpSampleKernel.cpp, PyTorch 2.13).
float inverse_of(const NearestAxis& nearest) {
  if (nearest.factor) return static_cast<float>(1 / *nearest.factor);
  return static_cast<float>(*nearest.size) / static_cast<float>(*nearest.result_size);
}

std::int64_t index_in_pytorch(std::int64_t k, float inverse, bool exact) {
  const auto centre = static_cast<float>(static_cast<double>(inverse) * (static_cast<double>(k) + 0.5) - 0.5);
  return whole_size(exact ? std::max(centre, 0.0F) + 0.5F : static_cast<float>(k) * inverse);
}

bool is_power_of_two(float factor) {
  int exponent = 0;
  return std::frexp(factor, &exponent) == 0.5F;
}

// Returns true if Resize may read an element other than the one at `index`. ONNX's formula divides by the factor; for
// 14 elements resized to 2, 1 / (2 / 14) is below 7 in float32, so it reads element 6. With pixel centres, runtimes
// round differently at the border between two elements.
bool may_misread(std::int64_t k, std::int64_t index, float inverse, float factor, bool exact) {
  if (!exact) return whole_size(static_cast<float>(k) / factor) != index;
  constexpr double near = 1e-4;
  const double at = (static_cast<double>(k) + 0.5) * static_cast<double>(inverse);
  return !is_power_of_two(factor) && std::abs(at - std::round(at)) < near;
}

Val constant_indices(Ctx& c, const NearestAxis& nearest) {
  const std::int64_t last = std::max<std::int64_t>(*nearest.size - 1, 0);
  const float inverse = inverse_of(nearest);
  const float factor = nearest.factor ? nearest.resize_factor
                                      : static_cast<float>(*nearest.result_size) / static_cast<float>(*nearest.size);
  Ints indices;
  bool misread = false;
  for (std::int64_t k = 0; k < *nearest.result_size; ++k) {
    const std::int64_t index = index_in_pytorch(k, inverse, nearest.exact);
    indices.push_back(std::min(index, last));
    misread |= (nearest.copied && indices.back() != k) || may_misread(k, index, inverse, factor, nearest.exact);
  }
  return misread ? c.constant_ints(indices) : absent;
}

// Divides in float32, like PyTorch.
Val ratio(Ctx& c, Val size, Val result_size, DType dtype) {
  return c.cast(c.emit("Div", {c.cast(size, DType::float32), c.cast(result_size, DType::float32)}), dtype);
}

// The same arithmetic as nodes, for an axis of any size.
Val computed_indices(Ctx& c, Val x, std::int64_t axis, const NearestAxis& nearest) {
  const DType dtype = nearest.exact ? DType::float64 : DType::float32;
  const auto number = [&](double value) { return c.constant_number(value, dtype); };
  const Val size = c.dim_of(x, axis);
  const Val result_size =
      nearest.factor ? size_by_factor(c, x, axis, *nearest.factor) : c.to_scalar_value(*nearest.requested_size);
  const Val every = c.emit("Range", {number(0), c.cast(result_size, dtype), number(1)});
  const Val inverse = nearest.factor ? number(inverse_of(nearest)) : ratio(c, size, result_size, dtype);
  Val indices;
  if (nearest.exact) {
    const Val centre = c.emit("Mul", {c.emit("Add", {every, number(0.5)}), inverse});
    const Val rounded = c.cast(c.emit("Sub", {centre, number(0.5)}), DType::float32);
    const auto single = [&](double value) { return c.constant_number(value, DType::float32); };
    indices = c.emit("Add", {c.emit("Max", {rounded, single(0)}), single(0.5)});
  } else {
    indices = c.emit("Mul", {every, inverse});
  }
  indices = c.emit("Min", {c.cast(indices, DType::int64), c.emit("Sub", {size, c.constant_int(1)})});
  if (!nearest.factor || !nearest.image || nearest.exact) return indices;
  const Val integers = c.cast(every, DType::int64);
  const Val doubles = c.emit("Equal", {result_size, c.emit("Add", {size, size})});
  indices = c.emit("Where", {doubles, c.emit("Div", {integers, c.constant_int(2)}), indices});
  return c.emit("Where", {c.emit("Equal", {result_size, size}), integers, indices});
}

}  // namespace

Val indices_to_gather(Ctx& c, Val x, std::int64_t axis, const NearestAxis& nearest) {
  const bool known = nearest.size && nearest.result_size;
  if (!known && !nearest.factor) {
    return (nearest.doubles && !nearest.exact) || !nearest.requested_size ? absent
                                                                          : computed_indices(c, x, axis, nearest);
  }
  if (known && (*nearest.size == 0 || *nearest.result_size > longest_table)) return absent;
  if (nearest.factor && !(nearest.resize_factor > 0 && std::isfinite(inverse_of(nearest)))) return absent;
  if (known) return constant_indices(c, nearest);
  const bool is_integer = *nearest.factor == std::floor(*nearest.factor);
  // ONNX Runtime copies if no size changes.
  if (may_keep_size(*nearest.factor) || may_round_up(*nearest.factor)) return computed_indices(c, x, axis, nearest);
  if (nearest.image && !nearest.exact && *nearest.factor > 1 && !is_integer)
    return computed_indices(c, x, axis, nearest);
  constexpr std::int64_t longest = std::int64_t{1} << 14U;
  const float inverse = inverse_of(nearest);
  for (std::int64_t k = 0; k < longest; ++k) {
    const std::int64_t index = index_in_pytorch(k, inverse, nearest.exact);
    if (may_misread(k, index, inverse, nearest.resize_factor, nearest.exact))
      return computed_indices(c, x, axis, nearest);
  }
  return absent;
}

}  // namespace whence::convert
