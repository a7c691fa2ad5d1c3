// Digests of tensors, their transposes and their casts, computed in chunks.
#include "schema/tensor_digests.h"

#define XXH_INLINE_ALL
#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <xxhash.h>

#include "schema/tensor_sketch.h"

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

// Gathers columns into rows, tile by tile, so that reads stay nearly sequential. The element size is a template
// argument: with a size known only at run time, each memcpy would be a function call.
template <std::size_t element>
void gather_columns(const TensorData& matrix, const std::byte* from, std::size_t first, std::size_t count,
                    std::byte* gathered) {
  constexpr std::size_t tile = 32;  // rows for each tile, so that its cache lines are reused
  const auto rows = static_cast<std::size_t>(matrix.shape[0]), columns = static_cast<std::size_t>(matrix.shape[1]);
  for (std::size_t top = 0; top < rows; top += tile) {
    const std::size_t bottom = std::min(rows, top + tile);
    for (std::size_t column = 0; column < count; ++column) {
      for (std::size_t row = top; row < bottom; ++row) {
        std::memcpy(gathered + (column * rows + row) * element, from + (row * columns + first + column) * element,
                    element);
      }
    }
  }
}

template <std::size_t element>
std::string transposed_digest(const TensorData& matrix, const std::byte* from) {
  const auto rows = static_cast<std::size_t>(matrix.shape[0]), columns = static_cast<std::size_t>(matrix.shape[1]);
  const std::size_t block =
      std::max<std::size_t>(1, std::min(columns, chunk / std::max<std::size_t>(1, rows * element)));
  std::vector<std::byte> gathered(block * rows * element);
  Hasher hasher;
  for (std::size_t first = 0; first < columns; first += block) {
    const std::size_t count = std::min(block, columns - first);
    gather_columns<element>(matrix, from, first, count, gathered.data());
    hasher.add(gathered.data(), count * rows * element);
  }
  return hasher.hex();
}

std::string transposed_digest(const TensorData& matrix, const std::byte* from) {
  switch (size_of(matrix.dtype)) {
    case 1:
      return transposed_digest<1>(matrix, from);
    case 2:
      return transposed_digest<2>(matrix, from);
    case 4:
      return transposed_digest<4>(matrix, from);
    case 8:
      return transposed_digest<8>(matrix, from);
    default:
      return transposed_digest<16>(matrix, from);
  }
}

// to_float16 and to_bfloat16 round to nearest, ties to even, and return one NaN for all NaNs, as PyTorch does. They
// compute all cases and select one, so that the compiler can vectorise a loop over them.
std::uint16_t to_float16(float value) {
  constexpr std::uint32_t infinity = 0x7f800000, rounds_to_infinity = 0x477ff000, smallest_normal = 0x38800000;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16U & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t normal = (magnitude + 0xfffU + (magnitude >> 13U & 1U) - 0x38000000U) >> 13U;
  // Adding 0.5 rounds to multiples of 2^-24, the smallest float16.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
  std::uint32_t half = magnitude < smallest_normal ? subnormal : normal;
  half = magnitude >= rounds_to_infinity ? 0x7c00U : half;
  half = magnitude > infinity ? 0x7e00U : half;
  return static_cast<std::uint16_t>(sign | half);
}

std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U;
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? 0x7fc0U : rounded);
}

template <class T, std::uint16_t (*narrow)(float)>
std::string cast_digest(std::span<const std::byte> content) {
  const std::size_t count = content.size() / sizeof(T);
  constexpr std::size_t chunk = std::size_t{1} << 13;  // elements that fit into the L1 cache
  std::array<T, chunk> read;
  std::array<std::uint16_t, chunk> cast;
  Hasher hasher;
  for (std::size_t first = 0; first < count; first += chunk) {
    const std::size_t here = std::min(chunk, count - first);
    std::memcpy(read.data(), content.data() + first * sizeof(T), here * sizeof(T));  // content may not be aligned
    for (std::size_t i = 0; i < here; ++i) cast[i] = narrow(static_cast<float>(read[i]));
    hasher.add(cast.data(), here * sizeof(std::uint16_t));
  }
  return hasher.hex();
}

template <class T>
void add_cast_digests(Parameter& parameter, std::span<const std::byte> content) {
  parameter.digests.float16 = cast_digest<T, to_float16>(content);
  parameter.digests.bfloat16 = cast_digest<T, to_bfloat16>(content);
}

}  // namespace

void compute_digests(Program& program) {
  for (Parameter& parameter : program.parameters) {
    const TensorData& data = parameter.data;
    const auto content = data.bytes.in_memory();
    if (data.dtype == DType::undefined || !content) continue;
    Hasher hasher;
    for (std::size_t at = 0; at < content->size(); at += chunk) {
      hasher.add(content->data() + at, std::min(chunk, content->size() - at));
    }
    parameter.digests.content = hasher.hex();
    parameter.sketch = sketch_of(data);
    if (data.shape.size() == 2) parameter.digests.transposed = transposed_digest(data, content->data());
    if (data.dtype == DType::float32) add_cast_digests<float>(parameter, *content);
    if (data.dtype == DType::float64) add_cast_digests<double>(parameter, *content);
  }
}

}  // namespace whence
