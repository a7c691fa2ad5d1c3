// Inlines calls of functions, and infers types and sizes of values.
#include <gtest/gtest.h>

#include "annotator/functions/inline_calls.h"
#include "annotator/functions/inlined_size.h"
#include "annotator/functions/model_parts.h"
#include "annotator/functions/named_sizes.h"
#include "annotator/functions/value_types.h"
#include "tests/annotator/parsed_model.h"
#include "tests/schema/expect_error.h"

namespace whence::functions {
namespace {

const std::string header = "<ir_version: 10, opset_import: [\"\" : 20, \"f\" : 1, \"com.microsoft\" : 1]>\n";

class Functions : public ::testing::Test {
 protected:
  ModelParts parts(const std::string& text) {
    return parts_of(whence::summary_of(parse_model(header + text), folder_));
  }
  // Inlines all calls and returns the nodes, each like "MatMul(x,w)".
  std::vector<std::string> inlined(const std::string& text) {
    ModelParts model = parts(text);
    report_ = inline_calls(model, true);
    std::vector<std::string> nodes;
    for (const onnx_file::OnnxNode& node : model.graph.nodes) {
      std::string line = std::string(node.op_type) + "(";
      for (const std::string_view name : node.inputs) line += (line.back() == '(' ? "" : ",") + std::string(name);
      nodes.push_back(line + ")");
    }
    return nodes;
  }

  TemporaryFolder folder_;
  InlineReport report_;
};

using Lines = std::vector<std::string>;

TEST_F(Functions, ACallBecomesTheNodesOfItsFunction) {
  EXPECT_EQ(inlined(R"(g (float[2] x, float[2] k) => (float[2] y) { h = f.twice (x) y = f.scaled <by = 3.0> (h, k) }
    <opset_import: ["" : 20], domain: "f"> twice (a) => (b) { b = Add (a, a) }
    <opset_import: ["" : 20], domain: "f"> scaled <by> (a, c) => (b) { s = Elu <alpha : float = @by> (a) b = Mul (s, c) })"),
            (Lines{"Add(x,x)", "Elu(h)", "Mul(s,k)"}));
  EXPECT_EQ(report_.calls, 2);
  EXPECT_EQ(report_.nodes, 3);
}

TEST_F(Functions, CallsWithinFunctionsAreInlined) {
  EXPECT_EQ(inlined(R"(g (float[2] x) => (float[2] y) { y = f.outer (x) }
    <opset_import: ["" : 20, "f" : 1], domain: "f"> outer (a) => (b) { t = f.inner (a) b = Neg (t) }
    <opset_import: ["" : 20], domain: "f"> inner (a) => (b) { b = Relu (a) })"),
            (Lines{"Relu(x)", "Neg(t)"}));
  EXPECT_EQ(report_.calls, 1);
}

TEST_F(Functions, NamesInInlinedCallsAreUnique) {
  const Lines lines = inlined(R"(g (float[2] x) => (float[2] y) { h = f.two (x) y = f.two (h) }
    <opset_import: ["" : 20], domain: "f"> two (a) => (b) { t = Relu (a) b = Neg (t) })");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_NE(lines[1], lines[3]);  // each call has a separate value t
  EXPECT_EQ(lines[2], "Relu(h)");
}

TEST_F(Functions, InvalidCallsAreRefused) {
  const char* const recursive = R"(g (float[2] x) => (float[2] y) { y = f.again (x) }
    <opset_import: ["" : 20, "f" : 1], domain: "f"> again (a) => (b) { b = f.again (a) })";
  expect_error(Code::corrupt_file, [&] { inlined(recursive); });
  expect_error(Code::corrupt_file, [&] {
    inlined(R"(g (float[2] x) => (float[2] y) { y = f.one (x, x) }
      <opset_import: ["" : 20], domain: "f"> one (a) => (b) { b = Neg (a) })");
  });
  const auto all_functions = [](const onnx_file::OnnxFunction&) { return true; };
  EXPECT_EQ(inlined_size(parts(recursive), all_functions), std::nullopt);
  const ModelParts nested = parts(R"(g (float[2] x) => (float[2] y) { h = f.outer (x) y = f.outer (h) }
    <opset_import: ["" : 20, "f" : 1], domain: "f"> outer (a) => (b) { t = f.inner (a) b = f.inner (t) }
    <opset_import: ["" : 20], domain: "f"> inner (a) => (b) { t = Neg (a) b = Neg (t) })");
  EXPECT_EQ(inlined_size(nested, all_functions), 8u);
  EXPECT_EQ(inlined_size(nested, [](const onnx_file::OnnxFunction& function) { return function.name == "outer"; }), 4u);
  EXPECT_EQ(stored_nodes(nested), 6u);
}

// Returns the sizes of a type, like "2,n".
std::string sizes_of(const onnx::TypeProto& type) {
  std::string text;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    text += (text.empty() ? "" : ",") + (dim.has_dim_value()       ? std::to_string(dim.dim_value())
                                         : dim.dim_param().empty() ? "?"
                                                                   : dim.dim_param());
  }
  return text;
}

TEST_F(Functions, TypesAreInferredThroughRuntimeOperators) {
  const ModelParts model = parts(R"(g (float[n, 3] x) => (float[n, 3] y) {
    h = com.microsoft.QuickGelu (x) k = Transpose (h) y = Transpose (k) })");
  const ValueTypes types = value_types(model);
  ASSERT_TRUE(types.contains("h"));
  EXPECT_EQ(sizes_of(*types.find("h")->second), "n,3");
  EXPECT_EQ(sizes_of(*types.find("k")->second), "3,n");
  const ValueTypes numbers = value_types(model, {{"n", 5}});
  EXPECT_EQ(sizes_of(*numbers.find("k")->second), "3,5");
}

TEST_F(Functions, UnknownSizesGetNames) {
  const ModelParts model = parts(R"(g (float[n, 4] x) => (float[a, b] y)
    <int64[2] target = {-1, 2}> { y = Reshape (x, target) })");
  const NamedSizes names(model);
  onnx::TypeProto type;
  auto& shape = *type.mutable_tensor_type()->mutable_shape();
  shape.add_dim();
  shape.add_dim()->set_dim_value(2);
  names.fill_in("y", type);
  EXPECT_EQ(sizes_of(type), "?,2");  // no input has the size 2 * n
  onnx::TypeProto input_type;
  input_type.mutable_tensor_type()->mutable_shape()->add_dim();
  input_type.mutable_tensor_type()->mutable_shape()->add_dim();
  names.fill_in("x", input_type);
  EXPECT_EQ(sizes_of(input_type).substr(0, 1), "n");
}

}  // namespace
}  // namespace whence::functions
