// Matches small files with small programs. Each test has one kind of change in the file.
#include <map>

#include "annotator/match/match.h"
#include "annotator/match/name_paths.h"
#include "annotator/match/reference.h"
#include "tests/annotator/parsed_model.h"
#include "tests/annotator/program_builder.h"

namespace whence {

using match::module_of_path;

namespace {

// Query and key of one input, their product, a softmax, a sum with the input and an activation, in separate modules.
// With `negated`, the product reads -query and -key.
class Attention : public ProgramBuilder {
 public:
  explicit Attention(bool negated = false) {
    x = input("x", f32({2, 4}));
    query = linear("query");
    key = linear("key");
    for (ValueId* side : {&query, &key}) {
      if (negated) *side = in("attention", [&] { return op("aten::neg", {{"self", v(*side)}}, f32({2, 4})); });
    }
    const ValueId transposed = in("attention", [&] { return op("aten::t", {{"self", v(key)}}, f32({4, 2})); });
    const ValueId scores = in(
        "attention", [&] { return op("aten::matmul", {{"self", v(query)}, {"other", v(transposed)}}, f32({2, 2})); });
    const ValueId probabilities =
        in("attention", [&] { return op("aten::softmax.int", {{"self", v(scores)}, {"dim", n(-1)}}, f32({2, 2})); });
    const ValueId weighted =
        in("attention", [&] { return op("aten::matmul", {{"self", v(probabilities)}, {"other", v(x)}}, f32({2, 4})); });
    const ValueId sum = in("block", [&] {
      return op("aten::add.Tensor", {{"self", v(weighted)}, {"other", v(x)}, {"alpha", n(1)}}, f32({2, 4}));
    });
    output(in("act", [&] { return op("aten::relu", {{"self", v(sum)}}, f32({2, 4})); }), "y");
  }

  template <class Make>
  ValueId in(const std::string& path, Make make) {
    const ValueId result = make();
    program.body.nodes.back().origin.scope = scope_of(path);
    return result;
  }

  ValueId x, query, key;

 private:
  ScopeId scope_of(const std::string& path) {
    for (const ScopeId id : program.scopes.keys()) {
      if (program.module_path(id) == path) return id;
    }
    return program.scopes.add({root_scope, add_module(program, path, "", root_module), 0});
  }

  ValueId linear(const std::string& name) {
    std::vector<float> content(16, 0.5F);
    content[0] = static_cast<float>(name.size());
    TensorData weight{DType::float32, {4, 4}, Bytes::copy_of(content.data(), 64)};
    const ValueId w = parameter(name + ".weight", weight);
    const ValueId b = parameter(name + ".bias", {DType::float32, {4}, Bytes::copy_of(content.data(), 16)});
    return in(name,
              [&] { return op("aten::linear", {{"input", v(x)}, {"weight", v(w)}, {"bias", v(b)}}, f32({2, 4})); });
  }
};

class MatchModel : public ::testing::Test {
 protected:
  // Maps the first output of each node to the node's module paths, joined by '+'.
  std::map<std::string, std::string> match(const std::string& text) {
    return match(parse_model(text), attention.program);
  }

  std::map<std::string, std::string> match(const onnx::ModelProto& file, const Program& program) {
    const onnx_file::OnnxSummary model = summary_of(file, folder);
    const match::Reference reference = match::make_reference(program, 18);
    report = match::match_model(model, reference);
    std::map<std::string, std::string> modules;
    for (std::size_t i = 0; i < model.graph.nodes.size(); ++i) {
      std::string& paths = modules[std::string(model.graph.nodes[i].outputs[0])];
      for (const match::UnitIndex unit : report.nodes[i].units) {
        const std::string& path = reference.scopes[reference.units[unit].scope].path;
        if (("+" + paths + "+").find("+" + path + "+") == std::string::npos) paths += (paths.empty() ? "" : "+") + path;
      }
    }
    return modules;
  }

  static std::string model(const std::string& nodes) {
    return R"(<ir_version: 8, opset_import: ["": 18, "com.microsoft": 1]> g (float[2,4] x) => (float[2,4] y)
      <float[4,4] w1 = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}, float[4,4] w2 = {2,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1},
       float[4] b1 = {1,2,3,4}, float[4] b2 = {4,3,2,1}> {)" +
           nodes + "}";
  }

  TemporaryFolder folder;
  Attention attention;
  match::MatchReport report;
};

// Names and bytes differ, and key precedes query in the file. Only the operands of the product distinguish them.
TEST_F(MatchModel, DistinguishesTwinsByTheirReader) {
  const auto modules = match(model(R"(
    a = MatMul(x, w1)   c = Add(a, b1)   k = Transpose(c)
    d = MatMul(x, w2)   q = Add(d, b2)
    s = MatMul(q, k)    p = Softmax(s)   o = MatMul(p, x)   r = Add(o, x)   y = Relu(r))"));
  EXPECT_EQ(modules.at("a"), "key");
  EXPECT_EQ(modules.at("c"), "key");
  EXPECT_EQ(modules.at("k"), "attention");
  EXPECT_EQ(modules.at("d"), "query");
  EXPECT_EQ(modules.at("q"), "query");
  EXPECT_EQ(modules.at("s"), "attention");
  EXPECT_EQ(modules.at("r"), "block");
  EXPECT_EQ(modules.at("y"), "act");
}

// torch.export numbers operators in order of execution, which differs between the file and the recording.
TEST_F(MatchModel, DoesNotDistinguishTwinsByNumber) {
  onnx::ModelProto file = parse_model(model(R"(
    a = MatMul(x, w1)   c = Add(a, b1)   l = Neg(c)      k = Transpose(l)
    d = MatMul(x, w2)   q = Add(d, b2)   n = Neg(q)
    s = MatMul(n, k)    p = Softmax(s)   o = MatMul(p, x)   r = Add(o, x)   y = Relu(r))"));
  for (onnx::NodeProto& node : *file.mutable_graph()->mutable_node()) {
    if (node.op_type() != "Neg") continue;
    node.set_name(node.output(0) == "l" ? "node_neg" : "node_neg_1");
    onnx::StringStringEntryProto* scopes = node.add_metadata_props();
    scopes->set_key("pkg.torch.onnx.name_scopes");
    scopes->set_value("['', 'attention', 'neg']");
  }
  const auto modules = match(file, Attention(true).program);
  EXPECT_EQ(modules.at("a"), "key");
  EXPECT_EQ(modules.at("d"), "query");
  EXPECT_EQ(modules.at("n"), "attention");
}

TEST_F(MatchModel, SkipsExtraNodes) {
  const auto modules = match(model(R"(
    d = Gemm(x, w2, b2)  a = Gemm(x, w1, b1)  k = Transpose(a)  z = Constant<value = float {0.5}>()  h = Mul(d, z)
    s = MatMul(h, k)     p = Softmax(s)       o = MatMul(p, x)  r = Add(x, o)                        y = Relu(r))"));
  EXPECT_EQ(modules.at("d"), "query");
  EXPECT_EQ(modules.at("a"), "key");
  EXPECT_EQ(modules.at("s"), "attention");
  EXPECT_EQ(modules.at("p"), "attention");
  EXPECT_EQ(modules.at("r"), "block");
}

TEST_F(MatchModel, FindsTheModulesOfQuantisedNodes) {
  const auto modules = match(model(R"(
    xq, xs, xz = DynamicQuantizeLinear(x)
    i = MatMulInteger(xq, w1, xz)  f = Cast<to = 1>(i)  g = Mul(f, xs)  q = Add(g, b1)
    a = MatMul(x, w2)  c = Add(a, b2)  k = Transpose(c)
    s = MatMul(q, k)   p = Softmax(s)  o = MatMul(p, x)  r = Add(o, x)  y = Relu(r))"));
  EXPECT_EQ(modules.at("i"), "query");
  EXPECT_EQ(modules.at("f"), "query");
  EXPECT_EQ(modules.at("g"), "query");
  EXPECT_EQ(modules.at("q"), "query");
}

TEST_F(MatchModel, MatchesAPartialFile) {
  const auto modules =
      match(R"(<ir_version: 8, opset_import: ["": 18]> g (float[2,2] s, float[2,4] x) => (float[2,4] y) {
    p = Softmax(s) o = MatMul(p, x) r = Add(o, x) y = Relu(r) })");
  EXPECT_EQ(modules.at("p"), "attention");
  EXPECT_EQ(modules.at("o"), "attention");
  EXPECT_EQ(modules.at("r"), "block");
  EXPECT_EQ(modules.at("y"), "act");
}

TEST_F(MatchModel, ReadsModulesInNames) {
  EXPECT_EQ(module_of_path("/layer1/layer1.0/conv1"), "layer1.0.conv1");
  EXPECT_EQ(module_of_path("/down.0/down.0.1"), "down.0.1");
  EXPECT_EQ(module_of_path("/backbone.body/body.2"), "backbone.body.2");
  EXPECT_EQ(module_of_path("/layers.0/attention"), "layers.0.attention");
  EXPECT_EQ(module_of_path(""), "");
}

TEST_F(MatchModel, EvidenceNamesItsSource) {
  onnx::ModelProto named = parse_model(model(R"(a = MatMul(x, w1) c = Add(a, b1) k = Transpose(c) d = MatMul(x, w2)
    q = Add(d, b2) s = MatMul(q, k) p = Softmax(s) o = MatMul(p, x) r = Add(o, x) y = Relu(r))"));
  named.mutable_graph()->mutable_node(8)->set_name("/block/Add");
  match(named, attention.program);
  ASSERT_EQ(report.evidence.size(), 10u);
  EXPECT_NE(report.evidence[8].find(": block (/block"), std::string::npos) << report.evidence[8];
  EXPECT_EQ(report.evidence[9].find("block"), std::string::npos) << report.evidence[9];
}

TEST_F(MatchModel, DetectsAFileOfAnotherModel) {
  match(R"(<ir_version: 8, opset_import: ["": 18]> g (float[1,1,8,8] i) => (float[1,1,6,6] t)
    <float[1,1,3,3] w = {1,2,3,4,5,6,7,8,9}> { t = Conv(i, w) })");
  EXPECT_TRUE(report.fit.of_another_model());
  match(model(R"(a = MatMul(x, w1) c = Add(a, b1) k = Transpose(c) d = MatMul(x, w2) q = Add(d, b2)
    s = MatMul(q, k) p = Softmax(s) o = MatMul(p, x) r = Add(o, x) y = Relu(r))"));
  EXPECT_FALSE(report.fit.of_another_model());
}

}  // namespace
}  // namespace whence
