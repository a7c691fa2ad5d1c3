// Which recent operators an export writes at which opset, and rows of operators.
#include <gtest/gtest.h>

#include "annotator/operators/onnx_operators.h"
#include "annotator/operators/operator_forms.h"

namespace whence::operators {
namespace {

TEST(OperatorForms, ByOpsetAndByWhatRuns) {
  // CumProd is of opset 26, and ONNX Runtime runs it.
  EXPECT_FALSE(writes("CumProd", 25, OperatorForms::runnable));
  EXPECT_TRUE(writes("CumProd", 26, OperatorForms::runnable));
  EXPECT_FALSE(writes("CumProd", 25, OperatorForms::fused));
  EXPECT_TRUE(writes("CumProd", 26, OperatorForms::fused));
  EXPECT_FALSE(writes("CumProd", 26, OperatorForms::plain));
  // Swish runs at its first opset alone.
  EXPECT_TRUE(writes("Swish", 24, OperatorForms::runnable));
  EXPECT_FALSE(writes("Swish", 25, OperatorForms::runnable));
  EXPECT_TRUE(writes("Swish", 25, OperatorForms::fused));
  EXPECT_FALSE(writes("Swish", 23, OperatorForms::fused));
  EXPECT_FALSE(writes("Relu", 28, OperatorForms::fused));  // not of the table
}

TEST(OperatorForms, EveryRowIsOfItsOpset) {
  ASSERT_FALSE(recent_operators().empty());
  for (const RecentOperator& row : recent_operators()) {
    EXPECT_TRUE(writes(row.name, row.since, OperatorForms::fused)) << row.name;
    EXPECT_FALSE(writes(row.name, row.since - 1, OperatorForms::fused)) << row.name;
    EXPECT_EQ(writes(row.name, row.since, OperatorForms::runnable), row.runs_until >= row.since) << row.name;
  }
}

TEST(OnnxOperators, RowsAreFoundByName) {
  EXPECT_TRUE(has("Reshape", reshapes));
  EXPECT_TRUE(has("Transpose", transparent));
  EXPECT_FALSE(has("Transpose", reshapes));
  EXPECT_TRUE(has("Add", commutative));
  EXPECT_FALSE(has("Sub", commutative));
  EXPECT_EQ(onnx_operator("MatMul").flops, Flops::matrix_product);
  EXPECT_EQ(onnx_operator("NoSuchOperator").facts, 0u);
  EXPECT_EQ(onnx_operator("NoSuchOperator").flops, Flops::uncounted);
  std::string_view before;
  for (const OnnxOperator& row : all_onnx_operators()) {
    EXPECT_LT(before, row.name);
    EXPECT_EQ(&onnx_operator(row.name), &row);
    before = row.name;
  }
}

}  // namespace
}  // namespace whence::operators
