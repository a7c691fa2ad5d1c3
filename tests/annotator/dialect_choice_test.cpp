// Writes selections of nodes in the formats of tools, and placements as text.
#include "annotator/dialect/dialect.h"
#include "annotator/dialect/written_choice.h"
#include "annotator/placement/placement.h"
#include "tests/annotator/stamped_summary.h"
#include "tests/schema/expect_error.h"

namespace whence {
namespace {

class DialectChoice : public StampedFileTest {
 protected:
  static view::SelectedNode node(const std::string& name, const std::string& op_type = "MatMul") {
    view::SelectedNode result;
    result.name = name;
    result.op_type = op_type;
    result.module = "encoder";
    return result;
  }
  std::string choice_text(const std::string& dialect, std::vector<view::SelectedNode> nodes,
                          const dialect::ChoiceOptions& options = {}) {
    return dialect::write_choice(dialect::find_dialect(dialect), std::move(nodes), model, options, notes_);
  }
  std::string name(std::size_t i) const { return std::string(model.graph.nodes.at(i).name); }

  Diagnostics notes_;
};

TEST_F(DialectChoice, WritesOneNamePerLine) {
  EXPECT_EQ(choice_text("names", {node(name(0)), node(name(1), "Add")}), name(0) + "\n" + name(1) + "\n");
}

TEST_F(DialectChoice, InvalidChoicesAreRefused) {
  expect_error(Code::usage, [&] { choice_text("names", {}); });
  expect_error(Code::usage, [&] { choice_text("names", {node("")}); });
  expect_error(Code::usage, [&] { choice_text("names", {node("\xff")}); });  // not UTF-8
  expect_error(Code::usage, [&] { choice_text("names", {node(name(0))}, {.setting = "fp8"}); });
  expect_error(Code::usage, [&] { dialect::find_dialect("nothing"); });
}

TEST_F(DialectChoice, NodesThatTheToolDoesNotSeeMayBeOmitted) {
  view::SelectedNode nested = node("inside", "Neg");
  nested.nested = true;
  expect_error(Code::usage, [&] { choice_text("nncf", {node(name(0)), nested}); });
  const std::string text = choice_text("nncf", {node(name(0)), nested}, {.setting = "", .partial = true});
  EXPECT_NE(text.find(name(0)), std::string::npos);
  EXPECT_EQ(text.find("inside"), std::string::npos);
  EXPECT_EQ(notes_.size(), 1u);
  expect_error(Code::usage, [&] { choice_text("nncf", {nested}, {.setting = "", .partial = true}); });
}

TEST(PlacementText, ListsAtMostTwentyDifferences) {
  placement::Placement result;
  result.shares = {{"gpu", 1200, 2, 4096, std::nullopt}, {"cpu", 3, 0, 0, std::nullopt}};
  result.crossings = {{"gpu", "cpu", 1}, {"cpu", "gpu", 2}};
  result.settings = "gpu(=a)";
  const std::string uncompared = to_text(result);
  EXPECT_NE(uncompared.find("1,200"), std::string::npos) << uncompared;
  EXPECT_NE(uncompared.find("1 value crosses from gpu to cpu\n2 values cross from cpu to gpu\n"), std::string::npos)
      << uncompared;
  EXPECT_EQ(uncompared.find("ONNX Runtime:"), std::string::npos);
  result.compared.emplace();
  result.compared->as_placed = 5;
  const std::string without_differences = to_text(result);
  EXPECT_TRUE(without_differences.ends_with("0 elsewhere, 0 not listed\n")) << without_differences;
  for (int i = 0; i < 22; ++i)
    result.compared->differences.push_back({"n" + std::to_string(i), "m", "gpu", "CPUExecutionProvider"});
  const std::string with_differences = to_text(result);
  EXPECT_NE(with_differences.find("n19"), std::string::npos) << with_differences;
  EXPECT_EQ(with_differences.find("n20"), std::string::npos);
  EXPECT_NE(with_differences.find("and 2 more"), std::string::npos);
}

TEST(PlacementRule, HasADeviceAndAPattern) {
  const placement::Rule rule = placement::parse_rule("gpu:0=encoder.**");
  EXPECT_EQ(rule.device, "gpu:0");
  EXPECT_EQ(rule.glob, "encoder.**");
  for (const char* const text : {"", "gpu", "=a", "tpu=a"}) EXPECT_THROW(placement::parse_rule(text), Error) << text;
}

}  // namespace
}  // namespace whence
