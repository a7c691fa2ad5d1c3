// Compares two files: nodes that are unchanged, replaced, fused, added or removed.
#include <gtest/gtest.h>

#include "annotator/view/diff.h"
#include "annotator/view/diff_pairs.h"
#include "annotator/view/fusion_parts.h"
#include "tests/annotator/parsed_model.h"

namespace whence {
namespace {

using view::Change;

class Diff : public ::testing::Test {
 protected:
  // Parses nodes in ONNX's text format that read x: float[2,4].
  onnx_file::OnnxSummary model(const std::string& nodes) {
    const onnx::ModelProto proto = parse_model(
        "<ir_version: 10, opset_import: [\"\" : 20, \"com.microsoft\" : 1]> agraph (float[2,4] x) => (float[2,4] y) "
        "<float[4,4] w = "
        "{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, float[4] b = {1,2,3,4}> { " +
        nodes + " }");
    const std::string path = folder_ / ("m" + std::to_string(++count_) + ".onnx");
    std::ofstream(path, std::ios::binary) << proto.SerializeAsString();
    return std::move(*onnx_file::read_onnx_summary(path));
  }
  // Returns the changes, for example "changed Gemm; removed Relu".
  std::string changes(const std::string& a, const std::string& b) {
    const onnx_file::OnnxSummary before = model(a), after = model(b);
    const view::ModelDiff diff = view::diff_models(before, after, nullptr);
    std::string text;
    for (const view::ChangedNode& node : diff.nodes) {
      text += (text.empty() ? "" : "; ") + std::string(name_of(node.change)) + " " + node.op_type;
      for (const std::string& old : node.fused) text += " <- " + old.substr(0, old.find(' '));
      for (const std::string& difference : node.differences) text += " (" + difference + ")";
    }
    EXPECT_EQ(diff.same(), text.empty());
    return text;
  }

  TemporaryFolder folder_;
  int count_ = 0;
};

TEST_F(Diff, EqualFilesHaveNoChanges) {
  EXPECT_EQ(changes("h = MatMul (x, w) y = Add (h, b)", "h = MatMul (x, w) y = Add (h, b)"), "");
}

TEST_F(Diff, ReportsAddedAndChangedNodes) {
  EXPECT_EQ(changes("y = Relu (x)", "h = Relu (x) y = Identity (h)").find("removed"), std::string::npos);
  EXPECT_EQ(changes("h = LeakyRelu <alpha = 0.5> (x) y = Neg (h)", "h = LeakyRelu <alpha = 0.25> (x) y = Neg (h)"),
            "changed LeakyRelu (alpha 0.5 -> 0.25)");
  EXPECT_EQ(changes("h = LeakyRelu (x) y = Neg (h)", "h = LeakyRelu <alpha = 0.01> (x) y = Neg (h)"),
            "");  // 0.01 is the default
}

TEST_F(Diff, ReportsAFusionAndItsReverse) {
  EXPECT_EQ(changes("h = MatMul (x, w) k = Add (h, b) y = Relu (k)", "k = Gemm (x, w, b) y = Relu (k)"),
            "fused Gemm <- MatMul <- Add");
  const std::string reverse =
      changes("k = Gemm (x, w, b) y = Relu (k)", "h = MatMul (x, w) k = Add (h, b) y = Relu (k)");
  EXPECT_NE(reverse.find("MatMul"), std::string::npos) << reverse;
  EXPECT_NE(reverse.find("Add"), std::string::npos) << reverse;
  EXPECT_EQ(reverse.find("removed"), std::string::npos) << reverse;
}

TEST_F(Diff, AnOperatorBetweenTheSameValuesIsAReplacement) {
  EXPECT_EQ(changes("h = Relu (x) y = Neg (h)", "h = Elu (x) y = Neg (h)"), "replaced Elu <- Relu");
}

// Returns a node with these modules for split_by_modules().
view::DiffNode of_modules(const onnx_file::OnnxNode& node, std::vector<std::string> modules,
                          origin::Confidence confidence = origin::Confidence::matched) {
  view::DiffNode result{.node = &node, .attribution = {}};
  result.attribution.confidence = modules.empty() ? origin::Confidence::unattributed : confidence;
  result.attribution.module = modules.empty() ? "" : modules.front();
  result.attribution.modules = std::move(modules);
  return result;
}

using Groups = std::vector<std::pair<std::vector<std::size_t>, std::vector<std::size_t>>>;

Groups split(const view::DiffNodes& a, const view::DiffNodes& b) {
  view::NodePairs::Fusion fusion;
  for (std::size_t i = 0; i < a.size(); ++i) fusion.a.push_back(i);
  for (std::size_t i = 0; i < b.size(); ++i) fusion.b.push_back(i);
  Groups groups;
  for (const auto& part : view::split_by_modules(fusion, a, b)) groups.emplace_back(part.a, part.b);
  return groups;
}

TEST(FusionParts, GroupNodesByModule) {
  const onnx_file::OnnxNode node;
  EXPECT_EQ(split({of_modules(node, {"a"}), of_modules(node, {"a"}), of_modules(node, {"b"})},
                  {of_modules(node, {"b"}), of_modules(node, {"a"})}),
            (Groups{{{0, 1}, {1}}, {{2}, {0}}}));
  // A node with several modules merges their groups.
  EXPECT_EQ(split({of_modules(node, {"a"}), of_modules(node, {"b"})}, {of_modules(node, {"a", "b"})}),
            (Groups{{{0, 1}, {0}}}));
}

TEST(FusionParts, UncertainNodesJoinTheRemainingNodes) {
  const onnx_file::OnnxNode node;
  // The second new node has only an ancestor module. The first new node already has a partner.
  EXPECT_EQ(split({of_modules(node, {"m.a"}), of_modules(node, {"m.b"})},
                  {of_modules(node, {"m.a"}), of_modules(node, {"m"}, origin::Confidence::ancestor)}),
            (Groups{{{0}, {0}}, {{1}, {1}}}));
  EXPECT_EQ(split({of_modules(node, {"a"}), of_modules(node, {"b"})}, {of_modules(node, {"a"}), of_modules(node, {})}),
            (Groups{{{0}, {0}}, {{1}, {1}}}));
  // No partner remains for the last node, so it is a new node.
  EXPECT_EQ(split({of_modules(node, {"a"})}, {of_modules(node, {"a"}), of_modules(node, {"c"})}),
            (Groups{{{0}, {0}}, {{}, {1}}}));
}

}  // namespace
}  // namespace whence
