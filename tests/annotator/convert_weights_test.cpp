// Weights turned on their side: every element by its place, at sizes that fill tiles and that do not.
#include "annotator/convert/weights.h"

#include <cstring>
#include <string>

#include <gtest/gtest.h>

namespace whence {

namespace {

// Elements that all differ: the number of the place in every byte that has room for some of it.
std::string numbered(std::int64_t count, std::size_t width) {
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
      const std::string bytes = numbered(rows * columns, width);
      const TensorData turned = convert::transposed({dtype, {rows, columns}, Bytes::owned(bytes)});
      ASSERT_EQ(turned.shape, (convert::Ints{columns, rows}));
      ASSERT_EQ(turned.bytes.size(), bytes.size());
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
          const auto from = static_cast<std::size_t>(r * columns + c), to = static_cast<std::size_t>(c * rows + r);
          ASSERT_EQ(std::memcmp(turned.bytes.in_memory().value().data() + to * width, &bytes[from * width], width), 0)
              << name_of(dtype) << " " << r << ", " << c << " of " << rows << " x " << columns;
        }
      }
    }
  }
}

}  // namespace
}  // namespace whence
