// Counts the floating-point operations of a node from the sizes of its values. The expected counts are computed by
// hand.
#include <gtest/gtest.h>

#include "annotator/view/operation_count.h"
#include "tests/annotator/parsed_model.h"

namespace whence {

using functions::ValueShape;
using functions::ValueShapes;
using Sizes = std::vector<std::int64_t>;

namespace {

class OperationCount : public ::testing::Test {
 protected:
  // Counts the operations of a node in ONNX's text format. `sizes` has the sizes of its values.
  std::optional<std::int64_t> count(const std::string& node, const std::vector<std::pair<std::string, Sizes>>& sizes) {
    read(node);
    ValueShapes shapes;
    for (const auto& [name, dims] : sizes) shapes[name] = std::make_shared<const ValueShape>(ValueShape{"", dims});
    lacks_ = view::lacks_sizes(summary_->graph.nodes.front(), shapes);
    return view::count_operations(summary_->graph.nodes.front(), shapes);
  }
  void read(const std::string& node) {
    summary_ =
        summary_of(parse_model("<ir_version: 10, opset_import: [\"\" : 20, \"com.microsoft\" : 1, \"mine\" : 1]>\n"
                               "agraph (float x) => (float y) { " +
                               node + " }"),
                   folder_);
  }

  TemporaryFolder folder_;
  std::optional<onnx_file::OnnxSummary> summary_;
  bool lacks_ = false;
};

TEST_F(OperationCount, ProductsCountMultiplyAddsTwice) {
  EXPECT_EQ(count("y = MatMul (a, b)", {{"a", {5, 2, 3}}, {"b", {3, 4}}, {"y", {5, 2, 4}}}), 2 * 5 * 2 * 4 * 3);
  EXPECT_EQ(count("y = MatMul (a, b)", {{"a", {3}}, {"b", {3}}, {"y", {}}}), 2 * 3);
  EXPECT_EQ(count("y = Gemm (a, b)", {{"a", {2, 3}}, {"b", {3, 4}}, {"y", {2, 4}}}), 2 * 2 * 4 * 3);
  EXPECT_EQ(count("y = Gemm <transA = 1> (a, b)", {{"a", {3, 2}}, {"b", {3, 4}}, {"y", {2, 4}}}), 2 * 2 * 4 * 3);
  EXPECT_EQ(count("y = com.microsoft.FusedMatMul <transA = 1> (a, b)",
                  {{"a", {5, 3, 2}}, {"b", {5, 3, 4}}, {"y", {5, 2, 4}}}),
            2 * 5 * 2 * 4 * 3);
  EXPECT_EQ(count("y = com.microsoft.FusedMatMul <transA = 1, transBatchA = 1> (a, b)",
                  {{"a", {3, 5, 2}}, {"b", {5, 3, 4}}, {"y", {5, 2, 4}}}),
            2 * 5 * 2 * 4 * 3);
}

TEST_F(OperationCount, ConvolutionsDependOnGroupsChannelsAndKernel) {
  // From 8 to 6 channels in 2 groups, a 3 x 5 kernel, 7 x 9 output positions.
  EXPECT_EQ(count("y = Conv (x, w)", {{"x", {1, 8, 9, 13}}, {"w", {6, 4, 3, 5}}, {"y", {1, 6, 7, 9}}}),
            2 * (6 * 7 * 9) * (4 * 3 * 5));
  EXPECT_EQ(count("y = ConvTranspose (x, w)", {{"x", {1, 6, 7, 9}}, {"w", {6, 4, 3, 5}}, {"y", {1, 8, 9, 13}}}),
            2 * (6 * 7 * 9) * (4 * 3 * 5));
  EXPECT_EQ(count("y = QLinearConv (x, s, z, w, ws, wz, ys, yz)",
                  {{"x", {1, 8, 9, 13}}, {"w", {6, 4, 3, 5}}, {"y", {1, 6, 7, 9}}, {"s", {1}}, {"z", {1}}}),
            2 * (6 * 7 * 9) * (4 * 3 * 5));
  EXPECT_EQ(count("y = AveragePool <kernel_shape = [2, 3]> (x)", {{"x", {1, 2, 4, 6}}, {"y", {1, 2, 3, 4}}}), 24 * 6);
}

TEST_F(OperationCount, EinsumDependsOnTheMultipliedAxes) {
  EXPECT_EQ(count("y = Einsum <equation = \"bij, bjk -> bik\"> (a, b)",
                  {{"a", {5, 2, 3}}, {"b", {5, 3, 4}}, {"y", {5, 2, 4}}}),
            2 * 5 * 2 * 3 * 4);
  // No axis is summed: one product per element.
  EXPECT_EQ(count("y = Einsum <equation = \"i,j->ij\"> (a, b)", {{"a", {2}}, {"b", {3}}, {"y", {2, 3}}}), 6);
  // k is summed in the first operand before the product.
  EXPECT_EQ(count("y = Einsum <equation = \"ik,i->i\"> (a, b)", {{"a", {2, 7}}, {"b", {2}}, {"y", {2}}}), 2);
  EXPECT_EQ(count("y = Einsum <equation = \"...i,ij->...j\"> (a, b)", {{"a", {2, 3}}, {"b", {3, 4}}, {"y", {2, 4}}}),
            std::nullopt);
  EXPECT_EQ(count("y = Einsum <equation = \"ij->i\"> (a)", {{"a", {2, 3}}, {"y", {2}}}), std::nullopt);
}

TEST_F(OperationCount, CountsAttentionAndRecurrentLayers) {
  // Two products: 2 x 3 queries of size 8 over 5 keys, and values of size 6.
  const std::vector<std::pair<std::string, Sizes>> sizes = {
      {"q", {2, 3, 8}}, {"k", {2, 5, 8}}, {"v", {2, 5, 6}}, {"y", {2, 3, 6}}, {"p", {2, 1, 4, 8}}};
  EXPECT_EQ(count("y = Attention (q, k, v)", sizes), 2 * 5 * (2 * 3 * 8 + 2 * 3 * 6));
  EXPECT_EQ(count("y = Attention (q, k, v, \"\", p, p)", sizes), 2 * (5 + 4) * (2 * 3 * 8 + 2 * 3 * 6));
  EXPECT_EQ(count("y = com.microsoft.Attention (q, k, v)", sizes), std::nullopt);
  // 7 steps of 2 rows: 4 gates of size 3 from inputs of size 5 and states of size 3.
  EXPECT_EQ(count("y = LSTM (x, w, r)", {{"x", {7, 2, 5}}, {"w", {1, 12, 5}}, {"r", {1, 12, 3}}, {"y", {7, 1, 2, 3}}}),
            2 * 14 * (12 * 5 + 12 * 3));
}

TEST_F(OperationCount, OtherOperatorsDependOnTheNumberOfElements) {
  EXPECT_EQ(count("y = Add (a, b)", {{"a", {2, 1}}, {"b", {3}}, {"y", {2, 3}}}), 6);
  EXPECT_EQ(count("y = ReduceSum (x)", {{"x", {4, 5}}, {"y", {1, 1}}}), 20);
  EXPECT_EQ(count("y = Softmax (x)", {{"x", {4, 5}}, {"y", {4, 5}}}), 5 * 20);
  EXPECT_EQ(count("y = Transpose (x)", {{"x", {4, 5}}, {"y", {5, 4}}}), 0);
}

TEST_F(OperationCount, IsUnknownWithoutSizes) {
  EXPECT_EQ(count("y = Add (a, b)", {}), std::nullopt);
  EXPECT_TRUE(lacks_);
  EXPECT_EQ(count("y = Transpose (x)", {}), 0);
  EXPECT_FALSE(lacks_);
  EXPECT_EQ(count("y = mine.Add (a, b)", {{"y", {2}}}), std::nullopt);
  EXPECT_FALSE(lacks_);  // an operator with an unknown count
  const std::int64_t large = std::int64_t{1} << 40;
  EXPECT_EQ(count("y = Add (a, b)", {{"y", {large, large}}}), std::nullopt);  // overflows 64 bits
  EXPECT_EQ(count("y = Add (a, b)", {{"y", {-1}}}), std::nullopt);
}

}  // namespace
}  // namespace whence
