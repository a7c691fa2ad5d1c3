// The conditions of the branches around an operation narrow the ranges of sizes.
#include "schema/path_conditions.h"

#include <gtest/gtest.h>

namespace whence {
namespace {

const Size rows = Size::symbol(SymbolId(0)), columns = Size::symbol(SymbolId(1));

SizeRange lengths(SymbolId) { return {0}; }

void expect_range(const std::vector<Comparison>& conditions, const Size& size, std::int64_t min, std::int64_t max) {
  const SizeRange range = range_under(conditions, size, lengths);
  EXPECT_EQ(range.min, min);
  EXPECT_EQ(range.max, max);
}

TEST(PathConditions, NarrowARange) {
  expect_range({{rows, Relation::at_most, 1}}, rows, 0, 1);
  expect_range({{1, Relation::at_least, rows}, {rows, Relation::different, 0}}, rows, 1, 1);
  expect_range({{rows, Relation::equal, 4}}, rows + 2, 6, 6);
  expect_range({{7, Relation::greater, 2 + rows}, {rows, Relation::greater, 2}}, rows, 3, 4);
  expect_range({{2 - rows, Relation::less, 1}, {rows, Relation::less, 5}}, rows, 2, 4);
}

TEST(PathConditions, DoNotNarrowOtherSizes) {
  const std::int64_t largest = SizeRange().max;
  expect_range({{columns, Relation::equal, 1}, {rows, Relation::less, columns}, {2 * rows, Relation::equal, 4}}, rows,
               0, largest);
  expect_range({{Size::unknown(), Relation::equal, 1}}, rows, 0, largest);
}

TEST(PathConditions, NegatingTwiceRestoresTheRelation) {
  for (const auto relation : {Relation::equal, Relation::different, Relation::less, Relation::at_most,
                              Relation::greater, Relation::at_least}) {
    EXPECT_NE(negated(relation), relation);
    EXPECT_EQ(negated(negated(relation)), relation);
  }
}

}  // namespace
}  // namespace whence
