// Reads the structure of ONNX files. Damaged bytes may cause an error but no crash.
#include <fstream>
#include <random>

#include <gtest/gtest.h>
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence {

using onnx_file::find_property;
using onnx_file::read_onnx_summary;

namespace {

std::string write_temporary(const std::string& content) {
  const std::string path = ::testing::TempDir() + "summary_" + std::to_string(::getpid()) + ".onnx";
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

onnx::ModelProto model() {
  onnx::ModelProto result;
  const auto status = onnx::OnnxParser::Parse(result, R"(
    <ir_version: 10, opset_import: ["" : 18, "pkg.mine" : 1], producer_name: "test", metadata_props: ["k": "v"]>
    graph (float[2] x, bool c) => (float[2] z)
    <float[2] w = {1, 2}>
    {
      y = Add(x, w)
      z = If (c) <
        then_branch = g1 () => (float[2] t) { t = pkg.mine.Twice(y) },
        else_branch = g2 () => (float[2] e) { e = Constant<value = float[2] {3, 4}>() }
      >
    }
    <domain: "pkg.mine", opset_import: ["" : 18]>
    Twice (a) => (b) { b = Add(a, a) }
  )");
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  auto* entry = result.mutable_graph()->mutable_node(0)->add_metadata_props();
  entry->set_key("pkg.whence.op");
  entry->set_value("7");
  return result;
}

TEST(OnnxSummary, HasTheStructureOfTheFile) {
  const auto result = read_onnx_summary(write_temporary(model().SerializeAsString()));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->ir_version, 10);
  EXPECT_EQ(result->producer, "test");
  EXPECT_EQ(find_property(result->metadata, "k"), "v");
  ASSERT_EQ(result->opsets.size(), 2U);
  EXPECT_EQ(result->opsets[0].version, 18);
  ASSERT_EQ(result->graph.nodes.size(), 2U);
  EXPECT_EQ(find_property(result->graph.nodes[0].metadata, "pkg.whence.op"), "7");
  EXPECT_EQ(find_property(result->graph.nodes[0].metadata, "other"), std::nullopt);
  ASSERT_EQ(result->graph.initializers.size(), 1U);
  EXPECT_EQ(result->graph.initializers[0].name, "w");
  EXPECT_EQ(result->graph.initializers[0].dims, (std::vector<std::int64_t>{2}));
  ASSERT_EQ(result->functions.size(), 1U);
  EXPECT_EQ(result->functions[0].domain, "pkg.mine");
}

TEST(OnnxSummary, MayOmitTheGraph) {
  const std::string bytes = model().SerializeAsString();
  const auto result = onnx_file::read_summary_without_graph(write_temporary(bytes));
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->graph.nodes.empty());
  EXPECT_EQ(find_property(result->metadata, "k"), "v");
  ASSERT_EQ(result->functions.size(), 1U);
  EXPECT_EQ(result->functions[0].nodes.size(), 1U);
  EXPECT_FALSE(onnx_file::read_summary_without_graph(write_temporary(bytes.substr(0, bytes.size() / 2))));
  EXPECT_FALSE(onnx_file::read_summary_without_graph(write_temporary("{}")));
}

TEST(OnnxSummary, StoresEqualOperatorsOnce) {
  onnx::ModelProto chain = model();
  *chain.mutable_graph()->add_node() = chain.graph().node(0);
  const auto result = read_onnx_summary(write_temporary(chain.SerializeAsString()));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->graph.nodes[2].op_type, "Add");
  EXPECT_EQ(result->graph.nodes[2].op_type.data(), result->graph.nodes[0].op_type.data());
  EXPECT_EQ(result->functions[0].nodes[0].op_type.data(), result->graph.nodes[0].op_type.data());
}

TEST(OnnxSummary, NestedNodesFollowTheirOwner) {
  const auto result = read_onnx_summary(write_temporary(model().SerializeAsString()));
  ASSERT_TRUE(result);
  std::vector<std::string> types;
  for (const onnx_file::OnnxNode* node : onnx_file::all_nodes(result->graph)) types.emplace_back(node->op_type);
  EXPECT_EQ(types, (std::vector<std::string>{"Add", "If", "Twice", "Constant"}));
  EXPECT_EQ(onnx_file::all_nodes(result->graph)[3]->tensors.size(), 1U);
}

TEST(OnnxSummary, EveryTruncationIsAnErrorOrAShorterModel) {
  const std::string bytes = model().SerializeAsString();
  std::size_t errors = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto result = read_onnx_summary(write_temporary(bytes.substr(0, size)));
    if (result) continue;  // truncated between two fields of the model
    ++errors;
    EXPECT_EQ(info(result.diagnostics().front().code).exit, ExitCode::malformed);
    EXPECT_FALSE(result.diagnostics().front().remedy.empty());
  }
  EXPECT_GT(errors, bytes.size() / 2);
}

TEST(OnnxSummary, DamagedBytesCauseNoCrash) {
  const std::string bytes = model().SerializeAsString();
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = bytes;
    for (int flip = 0; flip < 3; ++flip) damaged[random() % damaged.size()] = static_cast<char>(random());
    const auto result = read_onnx_summary(write_temporary(damaged));
    if (!result) {
      EXPECT_NE(result.diagnostics().front().code, Code::internal);
    }
  }
}

TEST(OnnxSummary, DeepNestingIsRefused) {
  std::string nested;
  // Encodes node(1) { attribute(5) { g(6) { ... } } } without protobuf, which refuses more than 100 levels.
  const auto wrap = [](int field, const std::string& content) {
    std::string length;
    for (std::size_t remaining = content.size(); true; remaining >>= 7) {
      length += static_cast<char>(remaining >= 0x80 ? remaining | 0x80 : remaining);
      if (remaining < 0x80) break;
    }
    return static_cast<char>(field << 3 | 2) + length + content;
  };
  for (int depth = 0; depth < 100; ++depth) nested = wrap(1, wrap(5, wrap(6, nested)));
  const auto result = read_onnx_summary(write_temporary(std::string("\x08\x0a") + wrap(7, nested)));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.diagnostics().front().code, Code::over_limit);
}

}  // namespace
}  // namespace whence
