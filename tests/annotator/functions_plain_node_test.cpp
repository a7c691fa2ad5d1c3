// Protobuf reads a plain node and writes the same bytes. Every other node must be detected, because the bytes of a
// plain node are copied to the output.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "annotator/functions/plain_node.h"
#include "annotator/onnx_file/wire_out.h"

namespace whence::functions {
namespace {

namespace wire = onnx_file::wire;

onnx::NodeProto conv() {
  onnx::NodeProto node;
  node.add_input("x"), node.add_input(""), node.add_output("y");
  node.set_name("n"), node.set_op_type("Conv"), node.set_doc_string("text"), node.set_domain(""),
      node.set_overload("o");
  onnx::AttributeProto& pads = *node.add_attribute();
  pads.set_name("pads"), pads.set_type(onnx::AttributeProto::INTS);
  for (const int pad : {0, -1, 300}) pads.add_ints(pad);
  onnx::AttributeProto& alpha = *node.add_attribute();
  alpha.set_name("alpha"), alpha.set_type(onnx::AttributeProto::FLOAT), alpha.set_f(0.5F);
  onnx::AttributeProto& mode = *node.add_attribute();
  mode.set_name("mode"), mode.set_ref_attr_name("outer"), mode.set_type(onnx::AttributeProto::STRING);
  onnx::StringStringEntryProto& entry = *node.add_metadata_props();
  entry.set_key("k"), entry.set_value("v");
  return node;
}

bool is_plain(const std::string& message) { return read_plain_node(message).has_value(); }

TEST(PlainNode, NodesFromProtobufArePlain) {
  const std::string message = conv().SerializeAsString();
  const auto node = read_plain_node(message);
  ASSERT_TRUE(node);
  EXPECT_EQ(node->inputs, (std::vector<std::string_view>{"x", ""}));
  EXPECT_EQ(node->outputs, std::vector<std::string_view>{"y"});
  ASSERT_EQ(node->attributes.size(), 3U);
  EXPECT_EQ(node->attributes[1].name, "alpha");
  EXPECT_EQ(node->attributes[1].message, conv().attribute(1).SerializeAsString());
  EXPECT_TRUE(is_plain(""));
}

TEST(PlainNode, FieldsInAnotherOrderAreNotPlain) {
  std::string message;
  wire::append_field(message, 4, "Relu");
  wire::append_field(message, 1, "x");
  EXPECT_FALSE(is_plain(message));
}

TEST(PlainNode, ADuplicateFieldIsNotPlain) {
  std::string message;
  wire::append_field(message, 4, "Relu");
  wire::append_field(message, 4, "Abs");
  EXPECT_FALSE(is_plain(message));
}

TEST(PlainNode, APaddedLengthIsNotPlain) {
  EXPECT_TRUE(is_plain(std::string("\x22\x01R", 3)));
  EXPECT_FALSE(is_plain(std::string("\x22\x81\x00R", 4)));
}

TEST(PlainNode, AnUnknownFieldIsNotPlain) {
  std::string message = conv().SerializeAsString();
  wire::append_field(message, 10, "");
  EXPECT_FALSE(is_plain(message));
}

TEST(PlainNode, PackedNumbersAreNotPlain) {
  std::string attribute, message;
  wire::append_field(attribute, 1, "pads");
  wire::append_field(attribute, 8, std::string("\0\1", 2));
  wire::append_field(message, 5, attribute);
  EXPECT_FALSE(is_plain(message));
}

TEST(PlainNode, DocStringsTensorsAndGraphsAreNotPlain) {
  onnx::NodeProto documented = conv(), constant = conv(), branch = conv();
  documented.mutable_attribute(0)->set_doc_string("comment");
  constant.mutable_attribute(0)->mutable_t()->set_name("t");
  branch.mutable_attribute(0)->mutable_g()->set_name("then");
  for (const onnx::NodeProto& node : {documented, constant, branch}) EXPECT_FALSE(is_plain(node.SerializeAsString()));
}

TEST(PlainNode, AnEntryWithTheValueFirstIsNotPlain) {
  std::string entry, message;
  wire::append_field(entry, 2, "v");
  wire::append_field(entry, 1, "k");
  wire::append_field(message, 9, entry);
  EXPECT_FALSE(is_plain(message));
}

}  // namespace
}  // namespace whence::functions
