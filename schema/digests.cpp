#include "schema/digests.h"

#define XXH_INLINE_ALL
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <xxhash.h>

namespace whence {

namespace {

constexpr std::size_t chunk = 1 << 20;

class Hasher {
 public:
  Hasher() : state_(XXH3_createState(), &XXH3_freeState) { XXH3_128bits_reset(state_.get()); }
  void add(const void* data, std::size_t size) { XXH3_128bits_update(state_.get(), data, size); }
  std::string hex() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    char text[33];
    std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                  static_cast<unsigned long long>(hash.low64));
    return text;
  }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
};

// Columns are gathered into rows block by block, so that reading stays close to sequential.
std::string transposed_digest(const TensorData& matrix) {
  const std::size_t rows = static_cast<std::size_t>(matrix.shape[0]),
                    columns = static_cast<std::size_t>(matrix.shape[1]);
  const std::size_t element = size_of(matrix.dtype);
  const std::size_t block =
      std::max<std::size_t>(1, std::min(columns, chunk / std::max<std::size_t>(1, rows * element)));
  std::vector<std::byte> gathered(block * rows * element);
  Hasher hasher;
  for (std::size_t first = 0; first < columns; first += block) {
    const std::size_t count = std::min(block, columns - first);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::byte* source = matrix.bytes.data + (row * columns + first) * element;
      for (std::size_t column = 0; column < count; ++column) {
        std::memcpy(gathered.data() + (column * rows + row) * element, source + column * element, element);
      }
    }
    hasher.add(gathered.data(), count * rows * element);
  }
  return hasher.hex();
}

// Both round to the nearest, ties to even, and make one NaN of all, as PyTorch does.
std::uint16_t to_float16(float value) {
  constexpr std::uint32_t infinity = 0x7f800000, rounds_to_infinity = 0x477ff000, smallest_normal = 0x38800000;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint32_t>(bits >> 16U & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t half = 0;
  if (magnitude > infinity) {
    half = 0x7e00;
  } else if (magnitude >= rounds_to_infinity) {
    half = 0x7c00;
  } else if (magnitude < smallest_normal) {
    half = static_cast<std::uint32_t>(std::lrint(std::fabs(value) * 0x1p24F));
  } else {
    half = (magnitude + 0xfffU + (magnitude >> 13U & 1U) - 0x38000000U) >> 13U;
  }
  return static_cast<std::uint16_t>(sign | half);
}

std::uint16_t to_bfloat16(float value) {
  if (std::isnan(value)) return 0x7fc0;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
}

template <class T, std::uint16_t (*narrow)(float)>
std::string cast_digest(const TensorData& tensor) {
  const std::size_t count = tensor.bytes.size / sizeof(T);
  std::vector<std::uint16_t> cast(std::min<std::size_t>(count, chunk / sizeof(T)));
  Hasher hasher;
  for (std::size_t first = 0; first < count; first += cast.size()) {
    const std::size_t here = std::min(cast.size(), count - first);
    for (std::size_t i = 0; i < here; ++i) {
      T value;
      std::memcpy(&value, tensor.bytes.data + (first + i) * sizeof(T), sizeof(T));
      cast[i] = narrow(static_cast<float>(value));
    }
    hasher.add(cast.data(), here * sizeof(std::uint16_t));
  }
  return hasher.hex();
}

template <class T>
void add_cast_digests(Parameter& parameter) {
  parameter.digest_float16 = cast_digest<T, to_float16>(parameter.data);
  parameter.digest_bfloat16 = cast_digest<T, to_bfloat16>(parameter.data);
}

}  // namespace

void compute_digests(Program& program) {
  for (Parameter& parameter : program.parameters) {
    const TensorData& data = parameter.data;
    if (data.dtype == DType::undefined || (data.bytes.data == nullptr && data.bytes.size > 0)) continue;
    Hasher content;
    for (std::size_t at = 0; at < data.bytes.size; at += chunk) {
      content.add(data.bytes.data + at, std::min(chunk, data.bytes.size - at));
    }
    parameter.digest = content.hex();
    if (data.shape.size() == 2) parameter.digest_transposed = transposed_digest(data);
    if (data.dtype == DType::float32) add_cast_digests<float>(parameter);
    if (data.dtype == DType::float64) add_cast_digests<double>(parameter);
  }
}

}  // namespace whence
