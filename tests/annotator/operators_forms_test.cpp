// The opsets at which the export writes recent operators, and the table of all operators.
#include <gtest/gtest.h>

#include "annotator/operators/onnx_operators.h"
#include "annotator/operators/operator_forms.h"

namespace whence::operators {
namespace {

TEST(OperatorForms, DependOnTheOpsetAndTheRuntime) {
  // CumProd was added in opset 26, and ONNX Runtime runs it.
  EXPECT_FALSE(writes("CumProd", 25, OperatorForms::runnable));
  EXPECT_TRUE(writes("CumProd", 26, OperatorForms::runnable));
  EXPECT_FALSE(writes("CumProd", 25, OperatorForms::fused));
  EXPECT_TRUE(writes("CumProd", 26, OperatorForms::fused));
  EXPECT_FALSE(writes("CumProd", 26, OperatorForms::plain));
  // ONNX Runtime runs Swish only at its first opset, 24.
  EXPECT_TRUE(writes("Swish", 24, OperatorForms::runnable));
  EXPECT_FALSE(writes("Swish", 25, OperatorForms::runnable));
  EXPECT_TRUE(writes("Swish", 25, OperatorForms::fused));
  EXPECT_FALSE(writes("Swish", 23, OperatorForms::fused));
  EXPECT_FALSE(writes("Relu", 28, OperatorForms::fused));  // not in the table
}

TEST(OperatorForms, RowsStartAtTheirOpset) {
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
  std::string_view previous;
  for (const OnnxOperator& row : all_onnx_operators()) {
    EXPECT_LT(previous, row.name);
    EXPECT_EQ(&onnx_operator(row.name), &row);
    previous = row.name;
  }
}

}  // namespace
}  // namespace whence::operators
