// Where an archive's tensors lie in memory, for any dynamic sizes.
#include <gtest/gtest.h>

#include "annotator/pt2/strides.h"

namespace whence::pt2 {
namespace {

const Size n = Size::symbol(0), m = Size::symbol(1);

TEST(Strides, RowsAreRecognisedInAnyForm) {
  EXPECT_TRUE(in_rows({{n, m, 4}, {m * 4, 4, 1}, 0}));
  EXPECT_TRUE(in_rows({{n, m + 1, 4}, {m * 4 + 4, 4, 1}, 0}));
  EXPECT_TRUE(in_rows({{n, 1, 4}, {4, 77, 1}, 0}));  // the stride of one element is any
  EXPECT_FALSE(in_rows({{n, m, 4}, {4, n * 4, 1}, 0}));
  EXPECT_FALSE(in_rows({{n, m}, {Size::unknown(), 1}, 0}));
}

TEST(Strides, AReshapeOfAxesInAnotherOrderIsACopy) {
  Node reshape;
  reshape.target = "aten::reshape";
  const Strided swapped{{n, 3, 4}, {12, 1, 3}, 0}, rows{{n, 12}, {12, 1}, 0};
  EXPECT_EQ(shares_memory(reshape, swapped, rows), std::optional(false));
  EXPECT_EQ(shares_memory(reshape, {{n, 3, 4}, {12, 4, 1}, 0}, rows), std::optional(true));
  EXPECT_EQ(shares_memory(reshape, {{2, 3, n}, {n, n * 2, 1}, 0}, {{6, n}, {n, 1}, 0}), std::optional(false));
  EXPECT_EQ(shares_memory(reshape, {{n, m, 4}, {m * 4, 1, m}, 0}, rows), std::nullopt);
}

}  // namespace
}  // namespace whence::pt2
