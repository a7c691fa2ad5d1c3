// The operations that fused operators are named after. tests/python/test_keep.py has the same cases in Python.
#include <gtest/gtest.h>

#include "annotator/operators/main_operation.h"

namespace whence::operators {
namespace {

using Positions = std::vector<std::size_t>;

TEST(MainOperations, AreThoseThatTheOperatorIsNamedAfter) {
  EXPECT_EQ(main_operations("GroupQueryAttention", {"MatMul", "Softmax", "MatMul", "Transpose"}), Positions{1});
  EXPECT_EQ(main_operations("MultiHeadAttention", {"Attention", "Softmax", "Add"}), Positions{0});
  EXPECT_EQ(main_operations("FusedConv", {"Conv", "BatchNormalization", "Relu"}), Positions{0});
  EXPECT_EQ(main_operations("MatMulNBits", {"Transpose", "MatMul", "Add"}), Positions{1});
  EXPECT_EQ(main_operations("SkipLayerNormalization", {"Add", "LayerNormalization"}), Positions{1});
  EXPECT_EQ(main_operations("SkipSimplifiedLayerNormalization", {"Add", "Pow", "ReduceMean", "Add", "Mul"}),
            (Positions{1, 2}));
  EXPECT_EQ(main_operations("MatMul", {"MatMul", "MatMul", "MatMul"}), (Positions{0, 1, 2}));  // packed weights
  EXPECT_EQ(main_operations("BiasSoftmax", {"Add", "Softmax", "Cast"}), Positions{1});
}

TEST(MainOperations, OfPyTorch) {
  EXPECT_EQ(main_operations("Attention", {"aten::mul", "aten::scaled_dot_product_attention", "aten::transpose"}),
            Positions{1});
  EXPECT_EQ(main_operations("Conv", {"aten::_convolution", "aten::batch_norm"}), Positions{0});
  EXPECT_EQ(main_operations("Gemm", {"aten::upsample_linear1d", "aten::linear", "aten::relu"}), Positions{1});
  EXPECT_EQ(main_operations("SkipLayerNormalization", {"aten::normal", "aten::native_layer_norm", "aten::add"}),
            Positions{1});
}

TEST(MainOperations, OtherwiseTheLastComputesTheResult) {
  EXPECT_EQ(main_operations("BiasGelu", {"Add", "Gelu"}), Positions{1});
  EXPECT_EQ(main_operations("GroupQueryAttention", {"Reshape", "Transpose"}), Positions{1});
  EXPECT_EQ(main_operations("Relu", {"aten::relu"}), Positions{0});
}

}  // namespace
}  // namespace whence::operators
