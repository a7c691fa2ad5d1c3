// A text pool never moves a text when it adds more, also not a text that is larger than a block.
#include <gtest/gtest.h>

#include "annotator/onnx_file/text_pool.h"

namespace whence::onnx_file {
namespace {

TEST(TextPool, KeepsTextsInPlace) {
  TextPool pool;
  std::string text = "first";
  const std::string_view first = pool.keep(text);
  text = "other";
  const std::string large(200'000, 'x');
  const std::string_view second = pool.keep(large);
  std::vector<std::string_view> many;
  for (int i = 0; i < 50'000; ++i) many.push_back(pool.keep(std::to_string(i)));
  EXPECT_EQ(first, "first");
  EXPECT_EQ(second, large);
  EXPECT_EQ(many[49'999], "49999");
  EXPECT_EQ(many[0], "0");
  EXPECT_EQ(pool.keep(""), "");
}

}  // namespace
}  // namespace whence::onnx_file
