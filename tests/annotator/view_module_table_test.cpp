// Tables of nested modules, and groups of nodes by operation.
#include <gtest/gtest.h>

#include "annotator/view/module_table.h"
#include "annotator/view/operation_groups.h"

namespace whence {

using view::ModuleTable;
using view::NodePairs;
using view::OperationGroups;

namespace {

TEST(ModuleTable, ShowsPathsRelativeToAncestors) {
  ModuleTable table({}, {{"nodes", text::Align::right}});
  table.module("", {"10"});
  table.module("encoder", {"9"});
  table.module("encoder.layer.0", {"4"}, {}, " (two names)");
  table.below("Add", {"1"});
  table.module("encoder.layer.1", {"5"});
  table.module("encoders", {"1"});  // not a child of encoder
  table.apart("(no module)", {"2"});
  table.module("encoder.layer.0", {"4"});
  EXPECT_EQ(table.text(),
            "module                   nodes\n"
            "(root)                      10\n"
            "  encoder                    9\n"
            "    layer.0 (two names)      4\n"
            "      Add                    1\n"
            "    layer.1                  5\n"
            "  encoders                   1\n"
            "(no module)                  2\n"
            "encoder.layer.0              4\n");
}

TEST(OperationGroups, PairNodesOfEqualOperations) {
  OperationGroups groups;
  groups.add({"a"}, 0, &NodePairs::Fusion::a);
  groups.add({"b"}, 1, &NodePairs::Fusion::a);
  groups.add({"c"}, 2, &NodePairs::Fusion::a);  // not in the second file
  groups.add({}, 3, &NodePairs::Fusion::a);
  groups.add({"b"}, 4, &NodePairs::Fusion::b);
  groups.add({"a"}, 5, &NodePairs::Fusion::b);
  groups.add({"d"}, 6, &NodePairs::Fusion::b);  // not in the first file
  const auto fusions = groups.fusions();
  ASSERT_EQ(fusions.size(), 2u);
  EXPECT_EQ(fusions[0].a, std::vector<std::size_t>{0});
  EXPECT_EQ(fusions[0].b, std::vector<std::size_t>{5});
  EXPECT_EQ(fusions[1].a, std::vector<std::size_t>{1});
  EXPECT_EQ(fusions[1].b, std::vector<std::size_t>{4});
}

TEST(OperationGroups, ANodeOfSeveralOperationsMergesTheirGroups) {
  OperationGroups groups;
  groups.add({"a"}, 0, &NodePairs::Fusion::a);
  groups.add({"b"}, 1, &NodePairs::Fusion::a);
  groups.add({"x", "b", "a"}, 2, &NodePairs::Fusion::b);
  const auto fusions = groups.fusions();
  ASSERT_EQ(fusions.size(), 1u);
  EXPECT_EQ(fusions[0].a, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(fusions[0].b, std::vector<std::size_t>{2});
}

}  // namespace
}  // namespace whence
