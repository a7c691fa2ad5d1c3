// Parses node names in TensorRT's layer names. Also: reads CSV rows, and writes amounts as text.
#include <gtest/gtest.h>

#include "annotator/profile/amount_text.h"
#include "annotator/profile/csv_rows.h"
#include "annotator/profile/tensorrt_names.h"

namespace whence::profile {
namespace {

using Names = std::vector<std::string>;

TEST(TensorrtNames, FusedLayersListTheirNodesInOrder) {
  const std::pair<const char*, Names> cases[] = {
      {"/a/Conv", {"/a/Conv"}},
      {"/a/Conv + /a/Relu", {"/a/Conv", "/a/Relu"}},
      {"a || b || c", {"a", "b", "c"}},
      {"a + PWN(b, PWN(c))", {"a", "b", "c"}},
      {"PWN(a, b", {"a", "b"}},
      {"a(x + y) + b", {"a(x + y)", "b"}},  // the brackets are part of the name
      {"a_myl109_2", {"a"}},
      {"a_myl109_2_b", {"a_myl109_2_b"}},
      {"Reformatting CopyNode for Input Tensor 0 to /a/Conv + /a/Relu", {"/a/Conv", "/a/Relu"}},
      {"/a/Conv copy", {"/a/Conv"}},
      {"__myl_MulMaxSub_myl109_3", {}},
      {"(Unnamed Layer* 14) [Shuffle]", {}},
      {"a + (Unnamed Layer* 14) [Shuffle]", {"a"}},
      {"", {}}};
  for (const auto& [name, nodes] : cases) {
    const HeldNodes layer_nodes = nodes_of_tensorrt_name(name);
    EXPECT_EQ(layer_nodes.names, nodes) << name;
    EXPECT_TRUE(layer_nodes.regions.empty() && !layer_nodes.cut) << name;
  }
}

TEST(TensorrtNames, RegionsHaveTwoEnds) {
  using Ends = std::pair<std::string, std::string>;
  HeldNodes layer_nodes = nodes_of_tensorrt_name("{ForeignNode[/a/MatMul.../b/Softmax]}");
  EXPECT_EQ(layer_nodes.regions, (std::vector<Ends>{{"/a/MatMul", "/b/Softmax"}}));
  EXPECT_TRUE(layer_nodes.names.empty());
  layer_nodes = nodes_of_tensorrt_name(
      "{ForeignNode[T_2 + (Unnamed Layer* 7) [Shuffle]...c + (Unnamed Layer* 8) [Shuffle]]} + e");
  EXPECT_EQ(layer_nodes.regions, (std::vector<Ends>{{"T_2", "c"}}));
  EXPECT_EQ(layer_nodes.names, Names{"e"});
  layer_nodes = nodes_of_tensorrt_name("{ForeignNode[/a/MatMul]}");  // a region of one node
  EXPECT_EQ(layer_nodes.regions, (std::vector<Ends>{{"/a/MatMul", "/a/MatMul"}}));
}

TEST(TensorrtNames, MetadataListsEachNodeOnce) {
  HeldNodes layer_nodes =
      nodes_of_tensorrt_metadata("[ONNX Layer: a | Local Function: f]\x1f[ONNX Layer: b]\x1e[ONNX Layer: a]");
  EXPECT_EQ(layer_nodes.names, (Names{"a", "b"}));
  EXPECT_FALSE(layer_nodes.cut);
  layer_nodes = nodes_of_tensorrt_metadata("[ONNX Layer: a]\x1f[ONNX La ... yer: c]\x1f[ONNX Layer: d]");
  EXPECT_EQ(layer_nodes.names, (Names{"a", "d"}));
  EXPECT_TRUE(layer_nodes.cut);
  EXPECT_TRUE(nodes_of_tensorrt_metadata("").empty());
  EXPECT_FALSE(nodes_of_tensorrt_metadata("").cut);
}

TEST(CsvRows, ReadsQuotedCellsAndLineEnds) {
  CsvRows rows("\xEF\xBB\xBFname,time\r\n\"a, b\",1\r\n\r\n\"say \"\"hi\"\"\",2\n\"two\nlines\",3\nshort\n", ',');
  EXPECT_TRUE(rows.has("name"));
  EXPECT_TRUE(rows.has("time"));
  EXPECT_FALSE(rows.has("other"));
  ASSERT_TRUE(rows.next());
  EXPECT_EQ(rows.at("name"), "a, b");
  EXPECT_EQ(rows.at("time"), "1");
  EXPECT_EQ(rows.row(), 2u);
  ASSERT_TRUE(rows.next());  // skips but counts the empty row
  EXPECT_EQ(rows.at("name"), "say \"hi\"");
  EXPECT_EQ(rows.row(), 4u);
  ASSERT_TRUE(rows.next());
  EXPECT_EQ(rows.at("name"), "two\nlines");
  ASSERT_TRUE(rows.next());
  EXPECT_EQ(rows.at("name"), "short");
  EXPECT_EQ(rows.at("time"), std::nullopt);
  EXPECT_EQ(rows.at("other"), std::nullopt);
  EXPECT_FALSE(rows.next());
}

TEST(CsvRows, AcceptsOtherSeparatorsAndNoFinalLineEnd) {
  CsvRows rows("a;b\n1,5;\"\"", ';');
  ASSERT_TRUE(rows.next());
  EXPECT_EQ(rows.at("a"), "1,5");
  EXPECT_EQ(rows.at("b"), "");
  EXPECT_FALSE(rows.next());
  EXPECT_FALSE(CsvRows("", ',').next());
}

TEST(AmountText, IsTheAmountPerRunInTheDisplayedUnit) {
  EXPECT_EQ(amount_text(2469, 2, Unit::microseconds), "1.234");  // 1234.5 microseconds, rounded to the even digit
  EXPECT_EQ(amount_text(3000, 1, Unit::microseconds), "3.000");
  EXPECT_EQ(amount_text(12345, 10, Unit::cycles), "1,235");
  EXPECT_EQ(amount_text(1000, 1, Unit::bytes), "1,000");
  EXPECT_EQ(shown_unit(Unit::microseconds), "ms");
  EXPECT_EQ(shown_unit(Unit::cycles), "cycles");
}

}  // namespace
}  // namespace whence::profile
