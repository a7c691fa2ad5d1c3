// Transposes weights whose sizes are or are not multiples of the tile size, and checks every element.
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "annotator/convert/weights.h"

namespace whence {

namespace {

// Returns elements that contain their indices, truncated to `width` bytes.
std::string index_bytes(std::int64_t count, std::size_t width) {
  std::string bytes(static_cast<std::size_t>(count) * width, '\0');
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    std::memcpy(&bytes[i * width], &i, std::min(width, sizeof i));
  }
  return bytes;
}

TEST(Weights, TransposedMovesEveryElement) {
  for (const DType dtype : {DType::int8, DType::float16, DType::float32, DType::float64, DType::complex128}) {
    for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {64, 64}, {15, 17}, {70, 131}}) {
      const std::size_t width = size_of(dtype);
      const std::string bytes = index_bytes(rows * columns, width);
      const TensorData result = convert::transposed({dtype, {rows, columns}, Bytes::owned(bytes)});
      ASSERT_EQ(result.shape, (convert::Ints{columns, rows}));
      ASSERT_EQ(result.bytes.size(), bytes.size());
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
          const auto from = static_cast<std::size_t>(r * columns + c), to = static_cast<std::size_t>(c * rows + r);
          ASSERT_EQ(std::memcmp(result.bytes.in_memory().value().data() + to * width, &bytes[from * width], width), 0)
              << name_of(dtype) << " " << r << ", " << c << " of " << rows << " x " << columns;
        }
      }
    }
  }
}

}  // namespace
}  // namespace whence
