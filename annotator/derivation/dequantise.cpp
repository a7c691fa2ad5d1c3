#include "annotator/derivation/dequantise.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "annotator/derivation/element_views.h"
#include "annotator/derivation/quantise.h"
#include "annotator/program/tensor_values.h"
#include "schema/element_count.h"

namespace whence::derivation {
namespace {

// Integers of 4, 8 or 16 bits, in the order of the file.
struct Integers {
  std::string bytes;
  int bits = 8;
  bool is_signed = true;

  std::int64_t size() const { return static_cast<std::int64_t>(bytes.size()) * 8 / bits; }

  double operator[](std::int64_t at) const {
    if (bits == 4) {
      const auto byte = static_cast<unsigned char>(bytes[static_cast<std::size_t>(at / 2)]);
      const int half = at % 2 == 0 ? byte & 0xf : byte >> 4;
      return is_signed && half >= 8 ? half - 16 : half;
    }
    if (bits == 16) {
      std::uint16_t value = 0;
      std::memcpy(&value, bytes.data() + at * 2, sizeof value);
      return is_signed ? static_cast<double>(static_cast<std::int16_t>(value)) : value;
    }
    const auto byte = static_cast<unsigned char>(bytes[static_cast<std::size_t>(at)]);
    return is_signed ? static_cast<double>(static_cast<signed char>(byte)) : byte;
  }
};

struct Dequantiser {
  GroupShape shape;
  Integers integers = {};
  GroupScales groups = {};
  std::int64_t row = 0;  // integers in a row of Layout::n_bits; 0: rows have no padding

  double operator()(std::int64_t element) const {
    const std::int64_t inner = element % shape.inner, axis = element / shape.inner % shape.length;
    const std::int64_t outer = element / shape.inner / shape.length;
    const auto group = static_cast<std::size_t>(shape.group(outer, axis, inner));
    const std::int64_t at = row > 0 ? outer * row + axis : element;
    return (integers[at] - groups.zeros[group]) * static_cast<double>(groups.scales[group]);
  }
};

// Returns the zero point of each group.
std::vector<std::int32_t> zeros_of(const Integers& stored, const GroupShape& shape, const QuantisedWeight& weight) {
  const bool is_n_bits = weight.layout == Layout::n_bits;
  std::vector<std::int32_t> zeros(static_cast<std::size_t>(shape.count()), weight.default_zero);
  const std::int64_t in_row = is_n_bits && weight.bits == 4 ? (shape.blocks() + 1) / 2 * 2 : shape.blocks();
  for (std::int64_t i = 0; i < shape.count(); ++i) {
    const std::int64_t at = is_n_bits ? i / shape.blocks() * in_row + i % shape.blocks() : i;
    if (at < stored.size()) zeros[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(stored[at]);
  }
  return zeros;
}

}  // namespace

std::optional<GroupScales> stored_groups(const FileTensors& tensors, Contents& contents,
                                         const QuantisedWeight& weight) {
  if (weight.scales == no_tensor) return {};
  const GroupShape shape(weight.groups, weight.dims);
  const auto scales = program::cast_tensor(contents.data(tensors[weight.scales]), DType::float32);
  if (!scales || scales->element_count() < shape.count()) return {};
  GroupScales groups;
  groups.scales.assign(floats_of(*scales).begin(), floats_of(*scales).end());
  Integers zeros{{}, weight.bits, weight.is_signed};
  const bool has_zeros = weight.zeros != no_tensor && !is_floating(from_onnx(tensors[weight.zeros].tensor->data_type));
  if (has_zeros) zeros.bytes = contents.of(tensors[weight.zeros]);
  groups.zeros = zeros_of(zeros, shape, weight);
  return groups;
}

std::optional<SampledTensor> dequantised(const FileTensors& tensors, Contents& contents,
                                         const QuantisedWeight& weight) {
  auto groups = stored_groups(tensors, contents, weight);
  if (!groups) return {};
  auto result = std::make_shared<Dequantiser>(
      Dequantiser{.shape = GroupShape(weight.groups, weight.dims), .groups = std::move(*groups)});
  result->integers = {std::string(contents.of(tensors[weight.integers])), weight.bits, weight.is_signed};
  if (weight.layout == Layout::n_bits) result->row = result->shape.blocks() * result->shape.block;
  const std::int64_t needed = result->row > 0 ? result->shape.outer * result->row : element_count(weight.dims);
  if (result->integers.size() < needed) return {};
  return SampledTensor{weight.dims, [result](std::int64_t element) { return (*result)(element); }};
}

std::optional<SampledTensor> dequantised(const FileTensors& tensors, Contents& contents, const QuantisedBias& bias) {
  if (bias.input_scale == no_tensor || bias.weight_scale == no_tensor) return {};
  const auto numbers_of = [&](TensorNumber number, DType dtype) {
    return program::cast_tensor(contents.data(tensors[number]), dtype);
  };
  const auto integers = numbers_of(bias.integers, DType::float64);
  const auto input = numbers_of(bias.input_scale, DType::float32),
             weight = numbers_of(bias.weight_scale, DType::float32);
  const bool fits = integers && input && weight && input->element_count() == 1 && weight->element_count() > 0 &&
                    (weight->element_count() == 1 || weight->element_count() == integers->element_count());
  if (!fits) return {};
  const auto real = [integers = *integers, input = *input, weight = *weight](std::int64_t element) {
    double integer = 0;
    std::memcpy(&integer, text_of(integers).data() + element * static_cast<std::int64_t>(sizeof integer),
                sizeof integer);
    const auto scales = floats_of(weight);
    return integer * static_cast<double>(floats_of(input)[0] *
                                         scales[scales.size() == 1 ? 0 : static_cast<std::size_t>(element)]);
  };
  return SampledTensor{integers->shape, real};
}

}  // namespace whence::derivation
