// A text pool never moves its texts, including texts that are larger than a block.
#include <gtest/gtest.h>

#include "annotator/onnx_file/text_pool.h"

namespace whence::onnx_file {
namespace {

TEST(TextPool, DoesNotMoveTexts) {
  TextPool pool;
  std::string text = "first";
  const std::string_view first = pool.keep(text);
  text = "second";
  const std::string large(200'000, 'x');
  const std::string_view second = pool.keep(large);
  std::vector<std::string_view> numbers;
  for (int i = 0; i < 50'000; ++i) numbers.push_back(pool.keep(std::to_string(i)));
  EXPECT_EQ(first, "first");
  EXPECT_EQ(second, large);
  EXPECT_EQ(numbers[49'999], "49999");
  EXPECT_EQ(numbers[0], "0");
  EXPECT_EQ(pool.keep(""), "");
}

}  // namespace
}  // namespace whence::onnx_file
