// The order of siblings in a module tree: as added or by name. Numbers are sorted numerically.
#include <gtest/gtest.h>

#include "annotator/origin/module_tree.h"

namespace whence::origin {
namespace {

std::vector<std::string> ordered(const std::vector<std::string>& added, Siblings siblings) {
  ModuleTree<ModulePlace> tree;
  for (const std::string& path : added) tree.add(path);
  tree.order_depth_first(siblings);
  std::vector<std::string> paths;
  for (const ModulePlace& row : tree.rows) {
    paths.push_back(row.path);
    EXPECT_EQ(tree.find(row.path), paths.size() - 1);
    if (row.parent) {
      EXPECT_TRUE(row.path.starts_with(paths[*row.parent]));
    }
  }
  return paths;
}

using Paths = std::vector<std::string>;

TEST(ModuleTree, NumbersAreSortedNumerically) {
  const Paths added = {"m.10.b", "m.2", "m.10.a", "m.0"};
  EXPECT_EQ(ordered(added, Siblings::as_added), (Paths{"", "m", "m.0", "m.2", "m.10", "m.10.b", "m.10.a"}));
  EXPECT_EQ(ordered(added, Siblings::by_name), (Paths{"", "m", "m.0", "m.2", "m.10", "m.10.a", "m.10.b"}));
}

TEST(ModuleTree, NamesBetweenNumbersDoNotMove) {
  EXPECT_EQ(ordered({"3", "stem", "1", "2x", "0"}, Siblings::as_added), (Paths{"", "0", "stem", "1", "2x", "3"}));
}

TEST(ModuleTree, AHugeNumberIsAName) {
  const std::string large(30, '9');
  EXPECT_EQ(ordered({large, "7", "1"}, Siblings::as_added), (Paths{"", large, "1", "7"}));
}

}  // namespace
}  // namespace whence::origin
