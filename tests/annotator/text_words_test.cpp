// Splits a text at a separator.
#include <gtest/gtest.h>

#include "annotator/text/words.h"

namespace whence::text {
namespace {

TEST(Split, ReturnsEmptyParts) {
  EXPECT_EQ(split("", ','), std::vector<std::string>{});
  EXPECT_EQ(split("a", ','), (std::vector<std::string>{"a"}));
  EXPECT_EQ(split("a,b", ','), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split("a,", ','), (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(split(",", ','), (std::vector<std::string>{"", ""}));
}

}  // namespace
}  // namespace whence::text
