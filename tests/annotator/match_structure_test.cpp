// The structure of a file for matching: bodies and functions are flattened, and each node has a kind.
#include <map>
#include <type_traits>

#include "annotator/match/file_structure.h"
#include "tests/annotator/parsed_model.h"
#include "tests/schema/expect_error.h"

namespace whence {

using match::ForeignNode;
using match::ForeignStructure;
using match::NodeKind;
using match::Side;
using FileStructure = match::FileStructure<Side::foreign>;

namespace {

// Nodes and values of each side have separate index types with the size of an int32.
static_assert(!std::is_constructible_v<ForeignNode, match::ForeignValue>);
static_assert(!std::is_constructible_v<ForeignNode, match::ReferenceNode>);
static_assert(!std::is_convertible_v<int, ForeignNode> && !std::is_convertible_v<ForeignNode, int>);
static_assert(sizeof(ForeignNode) == sizeof(std::int32_t));

class MatchStructure : public ::testing::Test {
 protected:
  const FileStructure& read(const std::string& text) {
    summary = summary_of(parse_model(text), folder);
    file = match::make_structure<Side::foreign>(summary);
    return file;
  }

  std::map<std::string, NodeKind> kinds() const {
    std::map<std::string, NodeKind> result;
    for (const auto& node : file.structure.nodes) result[std::string(node.op_type)] = node.kind;
    return result;
  }

  TemporaryFolder folder;
  onnx_file::OnnxSummary summary;
  FileStructure file;
};

TEST_F(MatchStructure, ClassifiesNodes) {
  read(R"(<ir_version: 8, opset_import: ["": 18]>
    g (float[2,3] x) => (float[6] y) <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float[4] b = {1,2,3,4}> {
      m = MatMul(x, w)
      a = Add(m, b)
      s = Softmax(a)
      n = Neg(b)
      k = Mul(s, n)
      y = Flatten(k)
    })");
  const auto kind = kinds();
  EXPECT_EQ(kind.at("MatMul"), NodeKind::heavy);
  EXPECT_EQ(kind.at("Add"), NodeKind::transparent);  // the bias of the product
  EXPECT_EQ(kind.at("Neg"), NodeKind::constant);
  EXPECT_EQ(kind.at("Mul"), NodeKind::heavy);
  EXPECT_EQ(kind.at("Flatten"), NodeKind::transparent);
}

TEST_F(MatchStructure, ScalesAndZeroPointsAreNoOperands) {
  read(R"(<ir_version: 8, opset_import: ["": 18, "com.microsoft": 1]>
    g (int8[2,3] x) => (int8[2,4] y)
      <int8[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}, int8[4] b = {1,2,3,4}, int8 h = {12}, float s = {0.25}, int8 z = {10}> {
      m = QLinearMatMul(x, s, z, w, s, z, s, z)
      a = com.microsoft.QLinearAdd(m, s, z, b, s, z, s, z)
      y = com.microsoft.QLinearMul(a, s, z, h, s, z, s, z)
    })");
  EXPECT_EQ(kinds().at("QLinearAdd"), NodeKind::transparent);  // the bias of the product
  const auto& product = file.structure.nodes[ForeignNode(2)];
  ASSERT_EQ(product.inputs.size(), 2U);
  EXPECT_EQ(file.structure.tensors[file.structure.root_tensor(product.inputs[1])].number, 0.5);
}

TEST_F(MatchStructure, SkipsRearrangements) {
  const ForeignStructure& s = read(R"(<ir_version: 8, opset_import: ["": 18]>
    g (float[2,3] x) => (float[3,2] y) { a = Relu(x) t = Transpose(a) i = Identity(t) y = Neg(i) })")
                                  .structure;
  const match::ForeignValue relu = s.nodes[ForeignNode(0)].outputs[0], read_by_neg = s.nodes[ForeignNode(3)].inputs[0];
  EXPECT_EQ(s.loose(read_by_neg), relu);
  ASSERT_EQ(s.heavy_uses(relu).size(), 1U);
  EXPECT_EQ(s.heavy_uses(relu)[0].node, ForeignNode(3));
}

TEST_F(MatchStructure, ASliceOfAllElementsIsTransparent) {
  const ForeignStructure& s = read(R"(<ir_version: 8, opset_import: ["": 18]>
    g (float[4,3] x) => (float[3,3] y)
      <int64[1] zero = {0}, int64[1] three = {3}, int64[1] all = {9223372036854775807}, int64[1] one = {1}> {
      a = Slice(x, zero, all, one)
      y = Slice(a, zero, three, zero)
    })")
                                  .structure;
  EXPECT_EQ(s.nodes[ForeignNode(0)].kind, NodeKind::transparent);
  EXPECT_EQ(s.nodes[ForeignNode(1)].kind, NodeKind::heavy);
}

// x * sigmoid(x) equals the operators Swish and QuickGelu; x * sigmoid(z) is a gate.
TEST_F(MatchStructure, AProductWithItsOwnGateIsAnActivation) {
  const ForeignStructure& s = read(R"(<ir_version: 8, opset_import: ["": 18, "com.microsoft": 1]>
    g (float[2] x, float[2] z) => (float[2] y) {
      s = Sigmoid(x) a = Mul(s, x) p = Softplus(x) t = Tanh(p) b = Mul(x, t) c = Mul(z, s)
      q = com.microsoft.QuickGelu(x) d = Add(a, b) e = Add(c, q) y = Add(d, e)
    })")
                                  .structure;
  EXPECT_EQ(s.nodes[ForeignNode(1)].op_class, s.nodes[ForeignNode(6)].op_class);
  EXPECT_EQ(s.nodes[ForeignNode(4)].op_class, s.nodes[ForeignNode(6)].op_class);
  EXPECT_NE(s.nodes[ForeignNode(5)].op_class, s.nodes[ForeignNode(6)].op_class);
}

TEST_F(MatchStructure, FlattensBodies) {
  const FileStructure& flat = read(R"(<ir_version: 8, opset_import: ["": 18]>
    g (bool c, float[2] x) => (float[2] y) {
      y = If (c) <then_branch = t () => (float[2] a) { a = Abs(x) }, else_branch = e () => (float[2] b) { b = Neg(x) }>
    })");
  EXPECT_EQ(flat.file_nodes.size(), 3U);
  EXPECT_EQ(flat.structure.nodes.size(), 3U);
  const auto& last = flat.structure.nodes[ForeignNode(2)];
  EXPECT_EQ(last.op_type, "If");
  EXPECT_EQ(last.inputs.size(), 3U);  // the condition and the results of both branches
}

TEST_F(MatchStructure, ExpandsFunctionsAtEachCall) {
  const FileStructure& flat = read(R"(<ir_version: 8, opset_import: ["": 18, "local": 1]>
    g (float[2] x) => (float[2] y) { h = local.twice(x) y = local.twice(h) }
    <domain: "local", opset_import: ["": 18]>
    twice (a) => (b) { s = Abs(a) b = Neg(s) })");
  EXPECT_EQ(flat.file_nodes.size(), 4U);       // two calls and the two nodes of the function
  EXPECT_EQ(flat.structure.nodes.size(), 4U);  // two nodes for each call
  EXPECT_EQ(flat.callee_nodes[match::FileNodeIndex(0)].size(), 2U);
  EXPECT_EQ(flat.structure.nodes[ForeignNode(0)].source, flat.structure.nodes[ForeignNode(2)].source);
}

TEST_F(MatchStructure, RefusesRecursiveFunctions) {
  summary = summary_of(parse_model(R"(<ir_version: 8, opset_import: ["": 18, "local": 1]>
    g (float[2] x) => (float[2] y) { y = local.again(x) }
    <domain: "local", opset_import: ["": 18, "local": 1]>
    again (a) => (b) { b = local.again(a) })"),
                       folder);
  expect_error(Code::corrupt_file, [&] { match::make_structure<Side::foreign>(summary); });
}

TEST_F(MatchStructure, RefusesCycles) {
  summary = summary_of(parse_model(R"(<ir_version: 8, opset_import: ["": 18]>
    g (float[2] x) => (float[2] y) { a = Add(x, b) b = Neg(a) y = Abs(b) })"),
                       folder);
  const std::string text = expect_error(Code::corrupt_file, [&] { match::make_structure<Side::foreign>(summary); });
  EXPECT_NE(text.find("cycle"), std::string::npos);
}

TEST_F(MatchStructure, AcceptsAnyNodeOrder) {
  const ForeignStructure& s = read(R"(<ir_version: 8, opset_import: ["": 18]>
    g (float[2] x) => (float[2] y) { y = Abs(b) b = Neg(a) a = Relu(x) })")
                                  .structure;
  EXPECT_EQ(s.nodes[s.order[0]].op_type, "Relu");
  EXPECT_EQ(s.nodes[s.order[2]].op_type, "Abs");
}

}  // namespace
}  // namespace whence
