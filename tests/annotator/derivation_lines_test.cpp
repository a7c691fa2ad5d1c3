// Tests which orders of rows count as made by a tool.
#include <gtest/gtest.h>

#include "annotator/derivation/lines.h"

namespace whence::derivation {
namespace {

std::vector<derivation::Run> runs_of(const std::vector<std::int64_t>& indices) {
  std::vector<derivation::Run> runs;
  for (const std::int64_t index : indices) add_index(runs, index);
  return runs;
}

TEST(Lines, JoinsIndicesToRuns) {
  EXPECT_EQ(runs_of({0, 1, 2, 3}), (std::vector<derivation::Run>{{0, 4, 1}}));
  EXPECT_EQ(runs_of({4, 6, 8, 0}), (std::vector<derivation::Run>{{4, 3, 2}, {0, 1, 1}}));
}

TEST(Lines, AcceptsOrdersThatToolsMake) {
  EXPECT_TRUE(is_regular(runs_of({3, 4, 5})));                             // a slice
  EXPECT_TRUE(is_regular({{0, 4, 1}, {8, 4, 1}, {4, 4, 1}, {12, 4, 1}}));  // two axes of heads exchanged
  EXPECT_TRUE(is_regular({{0, 5, 1}, {15, 5, 1}, {5, 10, 1}}));            // the gates of an LSTM: i f c o as i o f c
  EXPECT_TRUE(is_regular({{5, 5, 1}, {0, 5, 1}, {10, 5, 1}}));             // the gates of a GRU
}

TEST(Lines, RefusesCopiedAndExchangedLines) {
  EXPECT_FALSE(is_regular(runs_of({0, 1, 2, 7, 4, 5, 6, 7})));
  EXPECT_FALSE(is_regular(runs_of({0, 1, 3, 2, 4, 5, 6, 7})));
  EXPECT_FALSE(is_regular({{0, 3, 1}, {4, 4, 1}}));
}

}  // namespace
}  // namespace whence::derivation
