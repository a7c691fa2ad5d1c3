// Tests how fused operators are written as the nodes that they stand for.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "annotator/comparison/written_out.h"
#include "annotator/onnx_file/node_attributes.h"
#include "tests/annotator/parsed_model.h"

namespace whence::comparison {
namespace {

std::vector<std::string> operators(const WrittenOut& written) {
  std::vector<std::string> names;
  for (const onnx_file::OnnxNode& node : written.model->graph.nodes) names.emplace_back(node.op_type);
  return names;
}

class WrittenOutTest : public ::testing::Test {
 protected:
  onnx_file::OnnxSummary summary(const std::string& graph) {
    return summary_of(parse_model("<ir_version: 10, opset_import: [\"\": 21, \"com.microsoft\": 1]>\n" + graph),
                      folder_);
  }
  TemporaryFolder folder_;
};

constexpr const char* attention = R"(
agraph (float[1,3,64] x, int64[1,n] mask, float[1,2,p,16] past_k, float[1,2,p,16] past_v)
    => (float[1,3,64] y, float[1,2,n,16] present_k, float[1,2,n,16] present_v)
  <int64[1] axis = {1}, int64 one = {1}, float[8,8] cosines, float[8,8] sines> {
  tokens = ReduceSum(mask, axis)
  last = Sub(tokens, one)
  lengths = Cast<to = 6>(last)
  dims = Shape(mask)
  size = Gather(dims, one)
  total = Cast<to = 6>(size)
  y, present_k, present_v = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2, do_rotary = 1>
      (x, , , past_k, past_v, lengths, total, cosines, sines)
})";

TEST_F(WrittenOutTest, LeavesAFileWithoutFusedOperatorsAsItIs) {
  EXPECT_EQ(write_out(summary("agraph (float[2] x) => (float[2] y) { y = Relu(x) }")).model, nullptr);
}

TEST_F(WrittenOutTest, WritesTheSumAndTheNorm) {
  const WrittenOut written = write_out(summary(R"(
agraph (float[2,4] x, float[2,4] z) => (float[2,4] y) <float[4] weight> {
  a = Relu(x)
  y, m, v, sum = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 0.1>(a, z, weight)
})"));
  EXPECT_EQ(operators(written), (std::vector<std::string>{"Relu", "Add", "SimplifiedLayerNormalization"}));
  EXPECT_EQ(written.nodes, (std::vector<std::size_t>{0, 1, 1}));
  EXPECT_EQ(written.model->graph.nodes[1].outputs[0], "sum");
  EXPECT_EQ(written.model->graph.nodes[2].inputs[0], "sum");
}

// A norm after a product with a bias.
constexpr const char* norm = R"(
agraph (float[2,4] x, float[2,4] z) => (float[2,4] y, float[2,4] sum)
  <float[4,4] matrix, float[4] weight, float[4] shift, float[4] bias> {
  a = MatMul(z, matrix)
  y, , , sum = com.microsoft.SkipLayerNormalization(x, a, weight, shift, bias)
})";

TEST_F(WrittenOutTest, AddsTheBiasToTheProductBeforeTheNorm) {
  const WrittenOut written = write_out(summary(norm));
  EXPECT_EQ(operators(written), (std::vector<std::string>{"MatMul", "Add", "Add", "LayerNormalization"}));
  const auto& nodes = written.model->graph.nodes;
  EXPECT_EQ(nodes[1].inputs, (std::vector<std::string_view>{"a", "bias"}));
  EXPECT_EQ(nodes[2].inputs[1], "x");
  EXPECT_EQ(nodes[2].outputs[0], "sum");
  EXPECT_EQ(nodes[3].inputs, (std::vector<std::string_view>{"sum", "weight", "shift"}));
  EXPECT_EQ(written.drafted, (std::set<std::size_t>{1, 2, 3}));
}

TEST_F(WrittenOutTest, StatesTheEpsilonThatTheOperatorHasByDefault) {
  const WrittenOut written = write_out(summary(norm));
  EXPECT_EQ(onnx_file::number_attribute(written.model->graph.nodes[3], "epsilon"), static_cast<double>(1e-12F));
}

TEST_F(WrittenOutTest, LeavesANormWhoseMeanIsRead) {
  std::string text = norm;
  text.replace(text.find("y, , , sum"), 10, "y, mean, , sum");
  text.replace(text.find("float[2,4] sum"), 14, "float[2,4] sum, float[2,1] mean");
  EXPECT_EQ(write_out(summary(text)).unread, std::set<std::size_t>{1});
}

TEST_F(WrittenOutTest, TurnsNeighboursBySlices) {
  std::string text = attention;
  text.replace(text.find("do_rotary = 1"), 13, "do_rotary = 1, rotary_interleaved = 1");
  const WrittenOut written = write_out(summary(text));
  EXPECT_EQ(std::ranges::count(operators(written), "Slice"), 4);
  EXPECT_EQ(std::ranges::count(operators(written), "Split"), 1);  // of the packed product
}

TEST_F(WrittenOutTest, KeepsTheWindowOfAnAttention) {
  std::string text = attention;
  text.replace(text.find("do_rotary = 1"), 13, "do_rotary = 1, local_window_size = 4");
  const WrittenOut written = write_out(summary(text));
  EXPECT_EQ(onnx_file::number_attribute(written.model->graph.nodes.back(), "local_window_size"), 4);
}

TEST_F(WrittenOutTest, CountsNodesInBodies) {
  const WrittenOut written = write_out(summary(R"(
agraph (bool c, float[2,4] x, float[2,4] z) => (float[2,4] y) <float[4] weight> {
  a = If(c) <then_branch = g1 () => (float[2,4] t) { t = Relu(x) }, else_branch = g2 () => (float[2,4] e) { e = Neg(x) }>
  y = com.microsoft.SkipSimplifiedLayerNormalization(a, z, weight)
})"));
  EXPECT_EQ(written.nodes, (std::vector<std::size_t>{0, 1, 2, 3, 3}));
}

TEST_F(WrittenOutTest, WritesTheRotationsOfAnAttention) {
  const WrittenOut written = write_out(summary(attention));
  EXPECT_EQ(operators(written),
            (std::vector<std::string>{"Cast",   "Shape", "Gather", "Cast",   "Split", "Shape", "Gather",
                                      "Gather", "Split", "Neg",    "Concat", "Mul",   "Mul",   "Add",
                                      "Split",  "Neg",   "Concat", "Mul",    "Mul",   "Add",   "Attention"}));
  EXPECT_EQ(written.model->graph.nodes.back().inputs[3], "mask");
  EXPECT_TRUE(written.unread.empty());
  ASSERT_EQ(written.caches.size(), 2U);
  EXPECT_EQ(written.caches[0].past, "past_k");
  EXPECT_EQ(written.caches[1].present, "present_v");
}

TEST_F(WrittenOutTest, LeavesAnAttentionWhoseMeaningItDoesNotKnow) {
  for (const auto& [old, changed] :
       std::vector<std::pair<std::string, std::string>>{{"int64 one = {1}", "int64 one = {2}"},
                                                        {"do_rotary = 1", "do_rotary = 1, smooth_softmax = 1"},
                                                        {"do_rotary = 1", "do_rotary = 1, softcap = 30.0"},
                                                        {"do_rotary = 1", "do_rotary = 1, sliding_window_cache = 1"},
                                                        {"cosines, sines)\n", "cosines)\n"}}) {
    std::string text = attention;
    text.replace(text.find(old), old.size(), changed);
    const WrittenOut written = write_out(summary(text));
    EXPECT_EQ(operators(written).back(), "GroupQueryAttention") << changed;
    EXPECT_EQ(written.unread, std::set<std::size_t>{6}) << changed;
  }
}

TEST_F(WrittenOutTest, KnowsNoCachesInAnotherOrder) {
  std::string text = attention;
  const std::string outputs = "float[1,2,n,16] present_k, float[1,2,n,16] present_v";
  text.replace(text.find(outputs), outputs.size(), "float[1,2,n,16] present_v, float[1,2,n,16] present_k");
  EXPECT_TRUE(write_out(summary(text)).caches.empty());
}

TEST_F(WrittenOutTest, LeavesOperatorsOfOtherDomains) {
  EXPECT_EQ(write_out(summary(R"(
agraph (float[2,4] x) => (float[2,4] y) <float[4] weight> {
  y = other.SkipSimplifiedLayerNormalization(x, x, weight)
})"))
                .model,
            nullptr);
}

}  // namespace
}  // namespace whence::comparison
