// What nodes say of their origin in PyTorch's own keys, and which nodes a name means. Whole files are covered from the
// command line (tests/views/test_pytorch_keys.py, tests/views/test_former_names.py).
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "annotator/metadata/attribution.h"
#include "annotator/metadata/node_names.h"
#include "annotator/metadata/way.h"
#include "annotator/onnx_file/read_parts.h"

namespace whence {

using metadata::NameAge;
using metadata::NamedNodes;
using origin::Confidence;

namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

// Keeps the message that the node refers to.
struct Made {
  std::string message;
  onnx_file::OnnxNode node;
};

std::unique_ptr<Made> made(const std::string& op_type, const std::string& name, const std::vector<std::string>& inputs,
                           const std::string& output, const Entries& metadata) {
  onnx::NodeProto proto;
  proto.set_op_type(op_type);
  proto.set_name(name);
  for (const std::string& input : inputs) proto.add_input(input);
  proto.add_output(output);
  for (const auto& [key, value] : metadata) {
    onnx::StringStringEntryProto& entry = *proto.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  auto result = std::make_unique<Made>(Made{proto.SerializeAsString(), {}});
  result->node = onnx_file::read_node(result->message, {.stage = "read"});
  return result;
}

Entries pytorch(const std::string& module, const std::string& type, const std::string& operation) {
  return {{"pkg.torch.onnx.name_scopes", "['', '" + module + "', 'node']"},
          {"pkg.torch.onnx.class_hierarchy", "['Net', '" + type + "', '" + operation + "']"}};
}

metadata::Attribution read(const std::string& op_type, const std::vector<std::string>& inputs, const Entries& keys) {
  const auto node = made(op_type, "n", inputs, "y", keys);
  return metadata::attribution_of(node->node, nullptr);
}

TEST(PyTorchKeys, AreInferredWhereNothingContradictsThem) {
  struct Row {
    const char* op_type;
    std::vector<std::string> inputs;
    Entries keys;
    std::vector<std::string> modules;
    std::string module;
    Confidence confidence;
  };
  const std::vector<Row> rows = {
      {"Relu", {"x"}, pytorch("a.act", "nn.ReLU", "aten.relu.default"), {"a.act"}, "a.act", Confidence::inferred},
      // A parameter of a module within, as torch.nn.MultiheadAttention reads its out_proj.weight.
      {"Gemm", {"x", "a.out.weight"}, pytorch("a", "nn.A", "aten.linear.default"), {"a"}, "a", Confidence::inferred},
      // Not "a.b" within "a.bc": paths compare by segments.
      {"Gemm", {"x", "a.bc.weight"}, pytorch("a.b", "nn.B", "aten.linear.default"), {"a"}, "a", Confidence::ancestor},
      {"Gather",
       {"head.weight", "x"},
       pytorch("emb", "nn.E", "aten.embedding.default"),
       {""},
       "",
       Confidence::ancestor},
      {"Conv",
       {"x", "s.c.weight"},
       pytorch("s.n", "nn.N", "aten.batch_norm.default"),
       {"s.c", "s.n"},
       "s",
       Confidence::inferred},
      {"Conv", {"x", "renamed"}, pytorch("s.n", "nn.N", "aten.batch_norm.default"), {"s"}, "s", Confidence::ancestor},
      // The norm itself, written out.
      {"Mul",
       {"x", "s.n.weight"},
       pytorch("s.n", "nn.N", "aten.batch_norm.default"),
       {"s.n"},
       "s.n",
       Confidence::inferred},
      {"BatchNormalization",
       {"x", "s.n.weight"},
       pytorch("s.n", "nn.N", "aten.batch_norm.default"),
       {"s.n"},
       "s.n",
       Confidence::inferred}};
  for (const Row& row : rows) {
    const metadata::Attribution found = read(row.op_type, row.inputs, row.keys);
    EXPECT_EQ(found.modules, row.modules) << row.op_type << " " << row.inputs.back();
    EXPECT_EQ(found.module, row.module) << row.op_type << " " << row.inputs.back();
    EXPECT_EQ(found.confidence, row.confidence) << row.op_type << " " << row.inputs.back();
    EXPECT_TRUE(found.by_pytorch);
  }
}

TEST(PyTorchKeys, AreNotReadBesideTheWordsOfWhence) {
  Entries keys = pytorch("a", "nn.A", "aten.relu.default");
  keys.emplace_back("pkg.whence.confidence", "unattributed");
  EXPECT_FALSE(read("Relu", {"x"}, keys).attributed());
  keys.back().second = "matched";
  keys.emplace_back("pkg.whence.module", "b");
  const metadata::Attribution found = read("Relu", {"x"}, keys);
  EXPECT_EQ(found.module, "b");
  EXPECT_EQ(found.confidence, Confidence::matched);
  EXPECT_FALSE(found.by_pytorch);
}

TEST(PyTorchKeys, SayModulesInEitherOfTwoForms) {
  const auto modules = [](const Entries& keys) {
    std::string text;
    const auto node = made("Relu", "n", {}, "y", keys);
    for (const auto& each : metadata::pytorch_scopes(node->node.metadata).modules) {
      text += each.path + "=" + each.type + ";";
    }
    return text;
  };
  EXPECT_EQ(modules({{"namespace", ": Net/a: nn.A/a.b: nn.B/relu: aten.relu.default"}}), "=Net;a=nn.A;a.b=nn.B;");
  EXPECT_EQ(modules(pytorch("a", "nn.A", "x")), "=Net;a=nn.A;");
  for (const char* text : {"", "a/b/c", ": Net", ": Net/a", "a: b", "/", ": "}) {
    EXPECT_EQ(modules({{"namespace", text}}), "") << text;
  }
}

TEST(NodeNames, PresentNamesComeBeforeFormerOnesAndTheseBeforeValues) {
  const std::string original = "pkg.whence.original_name";
  const auto a = made("Relu", "/a/Relu", {"x"}, "v", {{original, "relu_1"}});
  const auto b = made("Relu", "relu_1", {"v"}, "w", {{original, "relu_2"}});
  const auto c = made("Relu", "c", {"w"}, "relu_2", {});
  const std::vector<const onnx_file::OnnxNode*> nodes = {&a->node, &b->node, &c->node};
  const auto names = [&](std::string_view name) {
    const NamedNodes found = metadata::find_nodes(nodes, name);
    std::string text;
    for (const auto* each : found.nodes) text += std::string(each->name) + ";";
    for (const auto* each : found.formerly) text += "(" + std::string(each->name) + ")";
    return text;
  };
  EXPECT_EQ(names("relu_1"), "relu_1;(/a/Relu)");
  EXPECT_EQ(names("relu_2"), "relu_1;");
  EXPECT_EQ(names("v"), "/a/Relu;");
  EXPECT_EQ(names("c"), "c;");
  EXPECT_EQ(names(""), "");
  EXPECT_EQ(names("relu"), "");
}

TEST(NodeNames, AListIsOfTheAgeThatMoreOfItsNamesHave) {
  const std::string original = "pkg.whence.original_name";
  const auto a = made("Relu", "/a/Relu", {"x"}, "v", {{original, "Relu_0"}});
  const auto b = made("Relu", "Relu_0", {"v"}, "w", {{original, "Relu_1"}});
  const auto c = made("Relu", "kept", {"w"}, "y", {});
  const std::vector<const onnx_file::OnnxNode*> nodes = {&a->node, &b->node, &c->node};
  const auto age = [&](const std::vector<std::string>& names) { return metadata::age_of_names(nodes, names); };
  EXPECT_EQ(age({"/a/Relu", "Relu_0", "kept"}).age, NameAge::present);
  EXPECT_EQ(age({"Relu_0", "Relu_1", "kept"}).age, NameAge::original);
  EXPECT_EQ(age({"Relu_1_Fused", "Relu_1/Mul"}).age, NameAge::original);
  EXPECT_FALSE(age({"Relu_0", "Relu_1"}).ambiguous);
  EXPECT_TRUE(age({"Relu_0", "kept"}).ambiguous);
  EXPECT_EQ(age({"Relu_0", "kept"}).age, NameAge::present);
  EXPECT_FALSE(age({"kept"}).ambiguous);
  EXPECT_EQ(metadata::name_of(c->node, NameAge::original), "kept");
}

}  // namespace
}  // namespace whence
