// ShortList stores a few items in place and more items on the heap. Tests the sizes at which it moves items or grows.
#include "schema/short_list.h"

#include <vector>

#include <gtest/gtest.h>

namespace whence {
namespace {

using List = ShortList<std::int32_t, 3>;

std::vector<std::int32_t> items(const List& list) { return {list.begin(), list.end()}; }

std::vector<std::int32_t> first_numbers(std::int32_t count) {
  std::vector<std::int32_t> numbers;
  for (std::int32_t i = 0; i < count; ++i) numbers.push_back(i);
  return numbers;
}

List list_of(std::int32_t count) {
  List list;
  list.append(first_numbers(count));
  return list;
}

TEST(ShortList, StoresItemsAtEverySize) {
  List list;
  for (std::int32_t i = 0; i < 100; ++i) {
    list.push_back(i);
    EXPECT_EQ(items(list), first_numbers(i + 1));
    EXPECT_EQ(list.size(), static_cast<std::size_t>(i + 1));
    EXPECT_EQ(list[static_cast<std::size_t>(i)], i);
  }
}

TEST(ShortList, CopiesAreIndependent) {
  for (const std::int32_t count : {0, 3, 4, 8, 9}) {
    const List original = list_of(count);
    List copy = original;
    copy.push_back(-1);
    EXPECT_EQ(items(original), first_numbers(count));
    EXPECT_EQ(copy.size(), original.size() + 1);
  }
}

TEST(ShortList, AMovedListIsEmpty) {
  for (const std::int32_t count : {2, 3, 4, 9}) {
    List source = list_of(count);
    const List target = std::move(source);
    EXPECT_EQ(items(target), first_numbers(count));
    EXPECT_TRUE(source.empty());  // NOLINT(bugprone-use-after-move)
  }
}

TEST(ShortList, AClearedListAcceptsItems) {
  List list = list_of(9);
  list.clear();
  EXPECT_TRUE(list.empty());
  list.append(first_numbers(5));
  EXPECT_EQ(items(list), first_numbers(5));
}

TEST(ShortList, IsAsLargeAsAPointerAndTwoNumbers) { EXPECT_EQ(sizeof(List), 16U); }

}  // namespace
}  // namespace whence
