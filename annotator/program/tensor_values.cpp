// Elements of small tensors as numbers. with_type() is the only switch over dtypes, for reading and writing.
#include "annotator/program/tensor_values.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "schema/small_floats.h"

namespace whence::program {
namespace {

struct Half {
  std::uint16_t bits;
};
struct BrainFloat {
  std::uint16_t bits;
};

// Calls visit(T{}) with the C++ type of one element; does nothing for dtypes without a number form.
template <class Visit>
void with_type(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::boolean:
      return visit(bool{});
    case DType::uint8:
      return visit(std::uint8_t{});
    case DType::int8:
      return visit(std::int8_t{});
    case DType::uint16:
      return visit(std::uint16_t{});
    case DType::int16:
      return visit(std::int16_t{});
    case DType::uint32:
      return visit(std::uint32_t{});
    case DType::int32:
      return visit(std::int32_t{});
    case DType::uint64:
      return visit(std::uint64_t{});
    case DType::int64:
      return visit(std::int64_t{});
    case DType::float16:
      return visit(Half{});
    case DType::bfloat16:
      return visit(BrainFloat{});
    case DType::float32:
      return visit(float{});
    case DType::float64:
      return visit(double{});
    default:
      return;
  }
}

template <class T>
T element(const std::byte* data, std::size_t index) {
  T value{};
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

double widen(Half value) { return from_float16_bits(value.bits); }
double widen(BrainFloat value) { return from_bfloat16_bits(value.bits); }
template <class T>
double widen(T value) {
  return static_cast<double>(value);
}

std::int64_t truncate(double value) {
  constexpr double limit = 9223372036854775808.0;  // 2^63
  return value >= -limit && value < limit ? static_cast<std::int64_t>(value) : 0;
}

template <class T, class From>
T narrow(From value) {
  if constexpr (std::is_same_v<T, Half>) {
    return Half{float16_bits(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<T, BrainFloat>) {
    return BrainFloat{bfloat16_bits(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != From{0};
  } else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<From>) {
    return static_cast<T>(truncate(value));
  } else {
    return static_cast<T>(value);
  }
}

bool holds_integers(DType dtype) { return is_integral(dtype) || dtype == DType::boolean; }

template <class From>
TensorData scalar(From value, DType dtype) {
  TensorData data{dtype, {}, {}};
  with_type(dtype, [&](auto type) {
    using T = decltype(type);
    const T narrowed = narrow<T>(value);
    data.bytes = Bytes::copy_of(&narrowed, sizeof narrowed);
  });
  return data;
}

}  // namespace

bool has_number_form(DType dtype) {
  bool known = false;
  with_type(dtype, [&](auto) { known = true; });
  return known;
}

std::optional<Elements> Elements::of(const TensorData& data) {
  const auto bytes = data.bytes.in_memory();
  const auto count = static_cast<std::size_t>(data.element_count());
  if (!bytes || !has_number_form(data.dtype) || bytes->size() / size_of(data.dtype) < count) return std::nullopt;
  return Elements(data.dtype, bytes->data(), count);
}

double Elements::number(std::size_t index) const {
  double number = 0;
  with_type(dtype_, [&](auto type) { number = widen(element<decltype(type)>(data_, index)); });
  return number;
}

std::int64_t Elements::integer(std::size_t index) const {
  std::int64_t number = 0;
  with_type(dtype_, [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) {
      number = static_cast<std::int64_t>(element<T>(data_, index));
    } else {
      number = truncate(widen(element<T>(data_, index)));
    }
  });
  return number;
}

std::optional<double> single_number(const TensorData& data) {
  const auto elements = Elements::of(data);
  if (!elements || elements->size() != 1) return std::nullopt;
  return elements->number(0);
}

TensorData integer_scalar(std::int64_t value, DType dtype) { return scalar(value, dtype); }
TensorData number_scalar(double value, DType dtype) { return scalar(value, dtype); }

TensorData integer_vector(const std::vector<std::int64_t>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return TensorData{DType::int64, {count}, Bytes::copy_of(values.data(), values.size() * sizeof(std::int64_t))};
}

std::optional<TensorData> cast_tensor(const TensorData& data, DType dtype) {
  if (data.dtype == dtype) return data;
  const auto elements = Elements::of(data);
  if (!elements || !has_number_form(dtype)) return std::nullopt;
  std::string bytes(elements->size() * size_of(dtype), '\0');
  with_type(dtype, [&](auto type) {
    using T = decltype(type);
    for (std::size_t i = 0; i < elements->size(); ++i) {
      const T value = holds_integers(data.dtype) ? narrow<T>(elements->integer(i)) : narrow<T>(elements->number(i));
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return TensorData{dtype, data.shape, Bytes::owned(std::move(bytes))};
}

std::uint16_t float16_bits(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude == 0) return sign;
  if (magnitude >= 65520.0f) return static_cast<std::uint16_t>(sign | 0x7c00u);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // The spacing of numbers at this magnitude: 11 significant bits, at least the subnormal step 2^-24.
  const int step = std::max(exponent - 11, -24);
  const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, -step)));
  // In units of the step, a normal number is 1024..2048; the addition carries into the next exponent.
  const std::uint32_t field = step == -24 ? units : ((static_cast<std::uint32_t>(step) + 25u) << 10) + (units - 1024u);
  return static_cast<std::uint16_t>(sign | field);
}

std::uint16_t bfloat16_bits(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x0040u);
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<std::uint16_t>(bits >> 16);
}

}  // namespace whence::program
