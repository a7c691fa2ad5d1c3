// Unites pairs of sets.
#include "schema/disjoint_sets.h"

#include <gtest/gtest.h>

namespace whence {
namespace {

TEST(DisjointSets, UnitedSetsHaveTheSecondRoot) {
  DisjointSets sets(5);
  sets.unite(0, 1);
  sets.unite(2, 3);
  EXPECT_EQ(sets.root(0), 1U);
  EXPECT_NE(sets.root(0), sets.root(2));
  sets.unite(0, 2);
  for (const std::size_t number : {0U, 1U, 2U, 3U}) EXPECT_EQ(sets.root(number), 3U);
  EXPECT_EQ(sets.root(4), 4U);
  sets.add();
  EXPECT_EQ(sets.size(), 6U);
  EXPECT_EQ(sets.root(5), 5U);
  sets.unite(3, 3);
  EXPECT_EQ(sets.root(2), 3U);
}

TEST(DisjointSets, ALongChainHasOneRoot) {
  constexpr std::size_t count = 100'000;
  DisjointSets sets(count);
  for (std::size_t i = 0; i + 1 < count; ++i) sets.unite(i, i + 1);
  EXPECT_EQ(sets.root(0), count - 1);
}

}  // namespace
}  // namespace whence
