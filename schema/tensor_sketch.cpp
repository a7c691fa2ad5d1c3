// Selects, reads and scales the elements of a sketch.
#include "schema/tensor_sketch.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "schema/element_count.h"
#include "schema/small_floats.h"

namespace whence {
namespace {

constexpr std::int64_t short_row = 8;  // elements; more rows are sampled if rows are shorter
constexpr std::int64_t max_dimension = std::int64_t{1} << 48;
constexpr std::int64_t max_rows = 16;
constexpr std::int64_t max_sketch_size = 192;  // 256 characters of base64

// Returns splitmix64 after index + 1 steps from seed 0, as specified in docs/values.md.
std::uint64_t splitmix(std::uint64_t index) {
  std::uint64_t z = (index + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ z >> 30U) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ z >> 27U) * 0x94d049bb133111ebULL;
  return z ^ z >> 31U;
}

// Adds a random index from each of `count` intervals of about equal length. Equidistant indices could always sample the
// same phase of a regular pattern, such as one position of a convolution kernel.
void add_places(std::vector<std::int64_t>& places, std::int64_t length, std::int64_t count, std::uint64_t& draws) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = i * length / count, end = (i + 1) * length / count;
    places.push_back(first + static_cast<std::int64_t>(splitmix(draws++) % static_cast<std::uint64_t>(end - first)));
  }
}

template <class T>
T stored(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double number_at(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::float16:
      return from_float16_bits(stored<std::uint16_t>(at));
    case DType::bfloat16:
      return from_bfloat16_bits(stored<std::uint16_t>(at));
    case DType::float32:
      return stored<float>(at);
    default:
      return stored<double>(at);
  }
}

bool is_sketched(DType dtype) {
  return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32 || dtype == DType::float64;
}

void add_row(std::vector<std::int8_t>& sketch, const std::vector<double>& row) {
  double largest = 0;
  for (const double each : row) largest = std::max(largest, std::isfinite(each) ? std::abs(each) : INFINITY);
  const double scale = largest > 0 && std::isfinite(largest) ? 127 / largest : 0;
  for (const double each : row) {
    sketch.push_back(scale == 0 ? 0 : static_cast<std::int8_t>(std::lround(each * scale)));
  }
}

}  // namespace

MatrixForm matrix_form(std::span<const std::int64_t> shape) {
  const std::int64_t count = element_count(shape);
  if (shape.empty() || count == 0) return {};
  const std::int64_t rows = shape.front(), columns = count / rows;
  return columns == 1 ? MatrixForm{1, count} : MatrixForm{rows, columns};
}

SketchPlaces sketch_places(MatrixForm form) {
  SketchPlaces places;
  if (form.rows < 1 || form.columns < 1 || form.rows * form.columns < min_sketched_elements) return places;
  if (std::max(form.rows, form.columns) > max_dimension) return places;  // from an untrusted file; products must fit
  const std::int64_t rows = std::min(form.rows, form.columns < short_row ? max_sketch_size / form.columns : max_rows);
  const std::int64_t per_row = std::min(form.columns, max_sketch_size / rows);
  std::uint64_t draws = 0;
  add_places(places.rows, form.rows, rows, draws);
  for (std::int64_t row = 0; row < rows; ++row) add_places(places.columns, form.columns, per_row, draws);
  places.per_row = static_cast<std::size_t>(per_row);
  return places;
}

std::vector<std::int8_t> sketch_of(const TensorData& data) {
  const auto bytes = data.bytes.in_memory();
  const MatrixForm form = matrix_form(data.shape);
  if (!bytes || !is_sketched(data.dtype)) return {};
  const std::size_t element = size_of(data.dtype);
  if (bytes->size() / element < static_cast<std::size_t>(form.rows) * static_cast<std::size_t>(form.columns)) return {};
  const SketchPlaces places = sketch_places(form);
  std::vector<std::int8_t> sketch;
  std::vector<double> row(places.per_row);
  for (std::size_t i = 0; i < places.rows.size(); ++i) {
    for (std::size_t j = 0; j < places.per_row; ++j) {
      const std::int64_t at = places.rows[i] * form.columns + places.columns[i * places.per_row + j];
      row[j] = number_at(data.dtype, bytes->data() + static_cast<std::size_t>(at) * element);
    }
    add_row(sketch, row);
  }
  return sketch;
}

}  // namespace whence
