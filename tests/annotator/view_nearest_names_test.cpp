// The names offered to somebody who mistyped one.
#include <gtest/gtest.h>

#include "annotator/text/nearest_names.h"

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

}  // namespace
}  // namespace whence
