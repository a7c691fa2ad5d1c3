// Suggests names for a mistyped name.
#include "schema/nearest_names.h"

#include <gtest/gtest.h>

namespace whence {
namespace {

TEST(NearestNames, MatchByEditDistanceOrSubstring) {
  const std::vector<std::string_view> names = {"/encoder/MatMul", "/encoder/Add", "/pooler/Gemm", "/decoder/MatMul"};
  EXPECT_EQ(nearest_names("/encoder/MatMil", names, 2),
            (std::vector<std::string>{"/encoder/MatMul", "/decoder/MatMul"}));
  EXPECT_EQ(nearest_names("gemm", names, 1), (std::vector<std::string>{"/pooler/Gemm"}));
  EXPECT_EQ(nearest_names("x", names, 9).size(), names.size());
  EXPECT_TRUE(nearest_names("x", {}, 3).empty());
}

TEST(Nearest, SuggestsOnlyTheIntendedName) {
  const std::vector<std::string> commands = {"record", "export",  "annotate", "validate",
                                             "show",   "explain", "strip",    "dot"};
  const std::pair<const char*, const char*> rows[] = {
      {"recrod", "record"},     {"exprot", "export"}, {"expot", "export"}, {"anno", "annotate"},
      {"valdiate", "validate"}, {"shwo", "show"},     {"expl", "explain"},
  };
  for (const auto& [mistyped, expected] : rows) EXPECT_EQ(nearest(mistyped, commands), expected) << mistyped;
  for (const char* mistyped : {"frobnicate", "x", "", "quantize", "foo", "shout"})
    EXPECT_EQ(nearest(mistyped, commands), std::nullopt) << mistyped;
}

}  // namespace
}  // namespace whence
