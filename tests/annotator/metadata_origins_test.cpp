// Origins in PyTorch's metadata keys, and nodes with a present or former name. tests/views/test_pytorch_keys.py and
// tests/views/test_former_names.py test complete files.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "annotator/metadata/attribution.h"
#include "annotator/metadata/call_path.h"
#include "annotator/metadata/node_names.h"
#include "annotator/onnx_file/read_parts.h"
#include "tests/annotator/parsed_model.h"

namespace whence {

using metadata::NameAge;
using metadata::NamedNodes;
using origin::Confidence;

namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

// A node and the message that its string views refer to.
struct StoredNode {
  std::string message;
  onnx_file::OnnxNode node;
};

std::unique_ptr<StoredNode> stored_node(const std::string& op_type, const std::string& name,
                                        const std::vector<std::string>& inputs, const std::string& output,
                                        const Entries& metadata) {
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
  auto result = std::make_unique<StoredNode>(StoredNode{proto.SerializeAsString(), {}});
  result->node = onnx_file::read_node(result->message, {.stage = "read"});
  return result;
}

Entries pytorch(const std::string& module, const std::string& type, const std::string& operation) {
  return {{"pkg.torch.onnx.name_scopes", "['', '" + module + "', 'node']"},
          {"pkg.torch.onnx.class_hierarchy", "['Net', '" + type + "', '" + operation + "']"}};
}

metadata::Attribution read(const std::string& op_type, const std::vector<std::string>& inputs, const Entries& keys) {
  const auto node = stored_node(op_type, "n", inputs, "y", keys);
  return metadata::attribution_of(node->node, nullptr);
}

TEST(PyTorchKeys, AreInferredUnlessContradicted) {
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
      // The parameter of a child: torch.nn.MultiheadAttention reads its out_proj.weight.
      {"Gemm", {"x", "a.out.weight"}, pytorch("a", "nn.A", "aten.linear.default"), {"a"}, "a", Confidence::inferred},
      // "a.bc" is not in "a.b", because paths are compared by segments.
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
      // A decomposed norm.
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
    const metadata::Attribution attribution = read(row.op_type, row.inputs, row.keys);
    EXPECT_EQ(attribution.modules, row.modules) << row.op_type << " " << row.inputs.back();
    EXPECT_EQ(attribution.module, row.module) << row.op_type << " " << row.inputs.back();
    EXPECT_EQ(attribution.confidence, row.confidence) << row.op_type << " " << row.inputs.back();
    EXPECT_TRUE(attribution.by_exporter);
  }
}

TEST(PyTorchKeys, AreIgnoredNextToWhencesKeys) {
  Entries keys = pytorch("a", "nn.A", "aten.relu.default");
  keys.emplace_back("pkg.whence.confidence", "unattributed");
  EXPECT_FALSE(read("Relu", {"x"}, keys).attributed());
  keys.back().second = "matched";
  keys.emplace_back("pkg.whence.module", "b");
  const metadata::Attribution attribution = read("Relu", {"x"}, keys);
  EXPECT_EQ(attribution.module, "b");
  EXPECT_EQ(attribution.confidence, Confidence::matched);
  EXPECT_FALSE(attribution.by_exporter);
}

TEST(PyTorchKeys, ContainModulesInTwoForms) {
  const auto modules = [](const Entries& keys) {
    std::string text;
    const auto node = stored_node("Relu", "n", {}, "y", keys);
    for (const auto& module : metadata::exporter_scopes(node->node.metadata).modules) {
      text += module.path + "=" + module.type + ";";
    }
    return text;
  };
  EXPECT_EQ(modules({{"namespace", ": Net/a: nn.A/a.b: nn.B/relu: aten.relu.default"}}), "=Net;a=nn.A;a.b=nn.B;");
  EXPECT_EQ(modules(pytorch("a", "nn.A", "x")), "=Net;a=nn.A;");
  for (const char* text : {"", "a/b/c", ": Net", ": Net/a", "a: b", "/", ": "}) {
    EXPECT_EQ(modules({{"namespace", text}}), "") << text;
  }
}

TEST(OnnxscriptKeys, NameEachScopeRelativeToTheOneBefore) {
  const std::string scopes = "['', 'model', 'layers.0', 'self_attn', 'q_proj']";
  const std::string classes = "['LM', 'Text', 'Layer', 'Attention', 'Linear']";
  const Entries lists = {{"pkg.onnxscript.name_scopes", scopes}, {"pkg.onnxscript.class_hierarchy", classes}};
  const Entries line = {{"namespace", ": LM/model: Text/layers.0: Layer/self_attn: Attention/q_proj: Linear"}};
  const std::vector<std::string> inputs = {"v_model.layers.0.norm.Mul_3", "model.layers.0.self_attn.q_proj.weight"};
  for (const Entries& keys : {lists, line}) {
    const auto node = stored_node("Gemm", "n", inputs, "y", keys);
    const auto modules = metadata::exporter_scopes(node->node.metadata).modules;
    ASSERT_EQ(modules.size(), 5u);
    EXPECT_EQ(modules[2].path, "model.layers.0");
    EXPECT_EQ(modules[4].path, "model.layers.0.self_attn.q_proj");
    EXPECT_EQ(modules[4].type, "Linear");
  }
  EXPECT_EQ(read("Gemm", inputs, lists).module, "model.layers.0.self_attn.q_proj");
  EXPECT_EQ(read("Gemm", inputs, lists).confidence, Confidence::inferred);
  // A parameter of another module contradicts the keys, the name of a computed value does not.
  EXPECT_EQ(read("Gemm", {"x", "model.layers.1.self_attn.q_proj.weight"}, lists).module, "model.layers");
  // An operator of a runtime is fused, and absorbed operations of that module.
  const auto fused = stored_node("GroupQueryAttention", "n", {"v_x", "model.rotary.cos_cache"}, "y",
                                 {{"pkg.onnxscript.name_scopes", "['', 'model', 'layers.0', 'attn']"}});
  fused->node.domain = "com.microsoft";
  const metadata::Attribution attention = metadata::attribution_of(fused->node, nullptr);
  EXPECT_EQ(attention.primary, "model.layers.0.attn");
  EXPECT_EQ(attention.modules, (std::vector<std::string>{"model.layers.0.attn", "model.rotary"}));
  EXPECT_EQ(attention.confidence, Confidence::inferred);
  // Neither does a constant that is named after its value.
  EXPECT_EQ(read("Add", {"const_1.0_f32", "model.layers.0.self_attn.q_proj.bias"}, lists).module,
            "model.layers.0.self_attn.q_proj");
  // A scope without a name is the module around it.
  EXPECT_EQ(read("Relu", {"x"}, {{"pkg.onnxscript.name_scopes", "['', 'a', '', 'b']"}}).module, "a.b");
  const metadata::Attribution root = read("Relu", {"x"}, {{"pkg.onnxscript.name_scopes", "['']"}});
  EXPECT_TRUE(root.attributed());
  EXPECT_EQ(root.module, "");
}

TEST(ExporterKeys, AreNotContradictedByAnInputOfTheModel) {
  onnx::ModelProto model = parse_model(R"(<ir_version: 10, opset_import: ["": 18]>
    agraph (float[2] x, float[2] p, float[2] q) => (float[2] y) <float[2] q = {1, 2}> {
      a = Add(x, p)
      y = Add(a, q)
    })");
  model.mutable_graph()->mutable_input(1)->set_name("past.0.key");
  model.mutable_graph()->mutable_node(0)->set_input(1, "past.0.key");
  model.mutable_graph()->mutable_input(2)->set_name("past.1.key");
  model.mutable_graph()->mutable_initializer(0)->set_name("past.1.key");
  model.mutable_graph()->mutable_node(1)->set_input(1, "past.1.key");
  for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
    onnx::StringStringEntryProto& entry = *node.add_metadata_props();
    entry.set_key("pkg.torch.onnx.name_scopes");
    entry.set_value("['', 'model', 'model.attn', 'add']");
  }
  const TemporaryFolder folder;
  const onnx_file::OnnxSummary summary = summary_of(model, folder);
  EXPECT_EQ(metadata::attribution_of(summary.graph.nodes[0], nullptr).module, "model.attn");
  EXPECT_EQ(metadata::attribution_of(summary.graph.nodes[1], nullptr).module, "") << "it reads a parameter of past.1";
}

TEST(NodeNames, FindsPresentNamesBeforeFormerNamesAndValues) {
  const std::string original = "pkg.whence.original_name";
  const auto a = stored_node("Relu", "/a/Relu", {"x"}, "v", {{original, "relu_1"}});
  const auto b = stored_node("Relu", "relu_1", {"v"}, "w", {{original, "relu_2"}});
  const auto c = stored_node("Relu", "c", {"w"}, "relu_2", {});
  const std::vector<const onnx_file::OnnxNode*> nodes = {&a->node, &b->node, &c->node};
  const auto names = [&](std::string_view name) {
    const NamedNodes named = metadata::find_nodes(nodes, name);
    std::string text;
    for (const auto* node : named.nodes) text += std::string(node->name) + ";";
    for (const auto* node : named.formerly) text += "(" + std::string(node->name) + ")";
    return text;
  };
  EXPECT_EQ(names("relu_1"), "relu_1;(/a/Relu)");
  EXPECT_EQ(names("relu_2"), "relu_1;");
  EXPECT_EQ(names("v"), "/a/Relu;");
  EXPECT_EQ(names("c"), "c;");
  EXPECT_EQ(names(""), "");
  EXPECT_EQ(names("relu"), "");
}

TEST(NodeNames, AListHasTheAgeOfTheMajority) {
  const std::string original = "pkg.whence.original_name";
  const auto a = stored_node("Relu", "/a/Relu", {"x"}, "v", {{original, "Relu_0"}});
  const auto b = stored_node("Relu", "Relu_0", {"v"}, "w", {{original, "Relu_1"}});
  const auto c = stored_node("Relu", "kept", {"w"}, "y", {});
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
