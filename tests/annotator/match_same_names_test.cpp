// Pairs values and nodes with equal names in a foreign file and an earlier file.
#include "annotator/match/file_structure.h"
#include "annotator/match/same_names.h"
#include "tests/annotator/parsed_model.h"

namespace whence {

using match::ForeignNode;
using match::ForeignValue;
using match::ReferenceNode;
using match::Side;

namespace {

class SameNames : public ::testing::Test {
 protected:
  void read(const std::string& before, const std::string& after) {
    earlier_model = summary_of(parse_model(before), folder_before);
    model = summary_of(parse_model(after), folder);
    reference = match::make_reference(earlier_model);
    file = match::make_structure<Side::foreign>(model);
    names = match::SameNames(file.structure, reference);
  }

  ForeignValue value(std::string_view name) const {
    for (const ForeignValue i : file.structure.values.keys()) {
      if (file.structure.values[i].name == name) return i;
    }
    return {};
  }
  std::string_view partner(std::string_view name) const {
    const match::ReferenceValue result = names.value(value(name));
    return result.exists() ? reference.structure.values[result].name : "none";
  }

  TemporaryFolder folder_before, folder;
  onnx_file::OnnxSummary earlier_model, model;
  match::Reference reference;
  match::FileStructure<Side::foreign> file;
  match::SameNames names;
};

TEST_F(SameNames, FindsValuesOfBothFiles) {
  read(R"(<ir_version: 10, opset_import: ["": 18]>
         g (float[2] x) => (float[2] y) <float[2] w = {1,2}> { a = Add(x, w) b = Relu(a) y = Neg(b) })",
       R"(<ir_version: 10, opset_import: ["": 18]>
         g (float[2] x) => (float[2] y) <float[2] w = {1,2}> { c = Add(x, w) b = Abs(c) y = Neg(b) })");
  EXPECT_EQ(partner("b"), "b");
  EXPECT_EQ(partner("w"), "w");
  EXPECT_EQ(partner("c"), "none");
  EXPECT_FALSE(names.computed_value(value("w")).exists());
  EXPECT_EQ(names.maker(value("b")), ReferenceNode(1));
  EXPECT_FALSE(names.maker(value("x")).exists());
  const auto& outputs = reference.structure.nodes[ReferenceNode(0)].outputs;
  EXPECT_FALSE(names.is_kept(outputs[0]));
  EXPECT_TRUE(names.is_kept(names.value(value("b"))));
}

// Tools name a result that nothing reads without regard to the names of values that they removed.
TEST_F(SameNames, IgnoresValuesThatNothingReads) {
  read(R"(<ir_version: 10, opset_import: ["": 18]>
         g (float[4] x) => (float[2] y) { a = Abs(x) y, b = Split(a) })",
       R"(<ir_version: 10, opset_import: ["": 18]>
         g (float[4] x) => (float[2] y) { y, a = Split(x) })");
  EXPECT_EQ(partner("a"), "none");
  EXPECT_EQ(partner("y"), "y");
}

// Two calls of a function repeat its names.
TEST_F(SameNames, UsesTheFirstOfEqualNames) {
  read(R"(<ir_version: 10, opset_import: ["": 18, "local": 1]>
         g (float[2] x) => (float[2] y) { h = local.twice(x) y = local.twice(h) }
         <domain: "local", opset_import: ["": 18]>
         twice (a) => (b) { s = Abs(a) b = Neg(s) })",
       R"(<ir_version: 10, opset_import: ["": 18]>
         g (float[2] x) => (float[2] y) { s = Abs(x) h = Neg(s) y = Neg(h) })");
  EXPECT_EQ(names.maker(value("s")), ReferenceNode(0));
  EXPECT_EQ(names.value(value("s")), reference.structure.nodes[ReferenceNode(0)].outputs[0]);
  EXPECT_TRUE(names.is_kept(reference.structure.nodes[ReferenceNode(2)].outputs[0]));
}

TEST_F(SameNames, FindsNodesByTheirNames) {
  onnx::ModelProto before = parse_model(R"(<ir_version: 10, opset_import: ["": 18]>
    g (float[2] x) => (float[2] y) { a = Abs(x) y = Neg(a) })");
  before.mutable_graph()->mutable_node(1)->set_name("last");
  onnx::ModelProto after = before;
  after.mutable_graph()->mutable_node(0)->set_name("last");
  after.mutable_graph()->mutable_node(1)->set_name("");
  earlier_model = summary_of(before, folder_before);
  model = summary_of(after, folder);
  reference = match::make_reference(earlier_model);
  file = match::make_structure<Side::foreign>(model);
  names = match::SameNames(file.structure, reference);
  EXPECT_EQ(names.node(ForeignNode(0)), ReferenceNode(1));
  EXPECT_FALSE(names.node(ForeignNode(1)).exists());
}

}  // namespace
}  // namespace whence
