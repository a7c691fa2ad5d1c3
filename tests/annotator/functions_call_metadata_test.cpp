// Metadata of functions that several modules share: templates, and the differences that calls store.
#include <gtest/gtest.h>

#include "annotator/functions/call_metadata.h"
#include "tests/schema/expect_error.h"

namespace whence::functions {
namespace {

TEST(CallText, TemplatesReplaceCompleteSegments) {
  const std::string_view module = "layer.0";
  const std::pair<const char*, const char*> cases[] = {{"layer.0", "{module}"},
                                                       {"layer.0.attention", "{module}.attention"},
                                                       {"layer.01", "layer.01"},
                                                       {"layer.0_x", "layer.0_x"},
                                                       {"my.layer.0", "my.layer.0"},
                                                       {"a_layer.0", "a_layer.0"},
                                                       {"/layer.0/query, layer.0.key", "/{module}/query, {module}.key"},
                                                       {"none", "none"}};
  for (const auto& [text, template_text] : cases) {
    EXPECT_EQ(to_template(text, module), template_text);
    EXPECT_EQ(from_template(template_text, module), text);
    EXPECT_TRUE(fills_template(text, template_text, module));
    EXPECT_FALSE(fills_template(std::string(text) + "x", template_text, module));
  }
  EXPECT_EQ(to_template("anything", ""), "anything");
  EXPECT_EQ(from_template("{module}.x", "layer.7"), "layer.7.x");
  EXPECT_FALSE(fills_template("layer.7.x", "{module}.x", module));
  EXPECT_FALSE(fills_template("b layer.0", "a {module}", module));
}

onnx::NodeProto node_with(const std::vector<std::pair<std::string, std::string>>& metadata) {
  onnx::NodeProto node;
  for (const auto& [key, value] : metadata) set_metadata(node, key, value);
  return node;
}

std::string value_of(const onnx::NodeProto& node, const std::string& key) {
  for (const auto& entry : node.metadata_props()) {
    if (entry.key() == key) return entry.value();
  }
  return "absent";
}

TEST(CallText, DifferencesRestoreTheOriginals) {
  const onnx::NodeProto first = node_with({{"same", "{module}.a"}, {"other", "1"}, {"extra", "x"}});
  const onnx::NodeProto second = node_with({{"same", "{module}"}});
  const std::string bytes = "\xff\x01";  // not UTF-8
  const std::vector<onnx_file::OnnxProperties> originals = {{{"same", "m.a"}, {"other", "2"}},
                                                            {{"same", "m"}, {"new", bytes}}};
  const std::string text = differences({{&first, "m"}, {&second, "m"}}, originals);
  EXPECT_EQ(text.find("same"), std::string::npos) << text;
  onnx::NodeProto a = first, b = second;
  apply_differences(text, {&a, &b});
  EXPECT_EQ(value_of(a, "other"), "2");
  EXPECT_EQ(value_of(a, "extra"), "absent");
  EXPECT_EQ(value_of(a, "same"), "{module}.a");
  EXPECT_EQ(value_of(b, "new"), bytes);
  EXPECT_EQ(value_of(b, "extra"), "absent");
}

TEST(CallText, DifferencesAreEmptyIfTheTemplateFits) {
  const onnx::NodeProto node = node_with({{"k", "{module}.a"}});
  EXPECT_EQ(differences({{&node, "m"}}, {{{"k", "m.a"}}}), "");
  EXPECT_NE(differences({{&node, "n"}}, {{{"k", "m.a"}}}), "");
}

TEST(CallText, DifferencesOfOtherNodesAreRefused) {
  onnx::NodeProto node;
  for (const char* const text : {"", "[]", R"({"k":["a","b"]})", R"({"k":"a"})"}) {
    expect_error(Code::corrupt_file, [&] { apply_differences(text, {&node}); });
  }
}

}  // namespace
}  // namespace whence::functions
