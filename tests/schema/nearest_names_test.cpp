// The names offered to somebody who mistyped one.
#include "schema/nearest_names.h"

#include <gtest/gtest.h>

namespace whence {
namespace {

TEST(NearestNames, ComeByEditDistanceAndByPart) {
  const std::vector<std::string_view> names = {"/encoder/MatMul", "/encoder/Add", "/pooler/Gemm", "/decoder/MatMul"};
  EXPECT_EQ(nearest_names("/encoder/MatMil", names, 2),
            (std::vector<std::string>{"/encoder/MatMul", "/decoder/MatMul"}));
  EXPECT_EQ(nearest_names("gemm", names, 1), (std::vector<std::string>{"/pooler/Gemm"}));
  EXPECT_EQ(nearest_names("x", names, 9).size(), names.size());
  EXPECT_TRUE(nearest_names("x", {}, 3).empty());
}

TEST(Nearest, SuggestsWhatWasMeantAndNothingElse) {
  const std::vector<std::string> known = {"record", "export", "annotate", "validate", "show", "explain", "strip"};
  const std::pair<const char*, const char*> rows[] = {
      {"recrod", "record"},     {"exprot", "export"}, {"expot", "export"}, {"anno", "annotate"},
      {"valdiate", "validate"}, {"shwo", "show"},     {"expl", "explain"},
  };
  for (const auto& [wanted, expected] : rows) EXPECT_EQ(nearest(wanted, known), expected) << wanted;
  for (const char* wanted : {"frobnicate", "x", "", "quantize"})
    EXPECT_EQ(nearest(wanted, known), std::nullopt) << wanted;
}

}  // namespace
}  // namespace whence
