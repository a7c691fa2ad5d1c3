// Infers the types of values, including those of a long graph that inference splits into pieces.
#include <fstream>

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "annotator/functions/value_types.h"
#include "tests/schema/temporary_folder.h"

namespace whence::functions {
namespace {

void set_type(onnx::ValueInfoProto& value, const std::string& name, const std::string& rows, int columns) {
  value.set_name(name);
  auto& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(onnx::TensorProto::FLOAT);
  tensor.mutable_shape()->add_dim()->set_dim_param(rows);
  tensor.mutable_shape()->add_dim()->set_dim_value(columns);
}

void add_node(onnx::GraphProto& graph, const std::string& op_type, const std::vector<std::string>& inputs,
              const std::string& output) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op_type);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
}

// x[n, 3], `length` Relu nodes, then MatMul by w[3, 5]. `with_fault` adds a MatMul that onnx rejects.
ModelParts long_chain(const TemporaryFolder& folder, int length, bool with_fault = false) {
  onnx::ModelProto model;
  model.set_ir_version(10);
  model.add_opset_import()->set_version(18);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("g");
  set_type(*graph.add_input(), "x", "n", 3);
  for (int i = 0; i < length; ++i) {
    add_node(graph, "Relu", {i == 0 ? "x" : "v" + std::to_string(i)}, "v" + std::to_string(i + 1));
  }
  const std::string last = "v" + std::to_string(length);
  onnx::TensorProto& weight = *graph.add_initializer();
  weight.set_name("w"), weight.set_data_type(onnx::TensorProto::FLOAT);
  weight.add_dims(3), weight.add_dims(5);
  weight.set_raw_data(std::string(3 * 5 * sizeof(float), '\0'));
  add_node(graph, "MatMul", {with_fault ? "x" : last, "w"}, "y");
  if (with_fault) add_node(graph, "MatMul", {"y", "w"}, "z");  // [n, 5] by [3, 5]
  graph.add_output()->set_name("y");
  const std::string path = folder / "m.onnx";
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
  return read_model_parts(path);
}

std::string shape_of(const ValueTypes& types, const std::string& name) {
  const auto type = types.find(name);
  if (type == types.end()) return "unknown";
  std::string text;
  for (const auto& dim : type->second->tensor_type().shape().dim()) {
    text += (text.empty() ? "" : ",") + (dim.has_dim_value() ? std::to_string(dim.dim_value()) : dim.dim_param());
  }
  return text;
}

TEST(ValueTypes, AreInferredFromInputsAndWeights) {
  const TemporaryFolder folder;
  const ModelParts parts = long_chain(folder, 2);
  EXPECT_EQ(shape_of(value_types(parts), "v2"), "n,3");
  EXPECT_EQ(shape_of(value_types(parts), "y"), "n,5");
  EXPECT_EQ(shape_of(value_types(parts, {{"n", 7}}), "y"), "7,5");
  EXPECT_EQ(shape_of(value_types(parts), "w"), "3,5");
}

TEST(ValueTypes, AreInferredAcrossPieces) {
  const TemporaryFolder folder;
  constexpr int length = 100'001;  // more nodes than one piece
  const ValueTypes types = value_types(long_chain(folder, length), {{"n", 7}});
  EXPECT_EQ(shape_of(types, "v1"), "7,3");
  EXPECT_EQ(shape_of(types, "v" + std::to_string(length)), "7,3");
  EXPECT_EQ(shape_of(types, "y"), "7,5");
}

TEST(ValueTypes, AreReadFromTheFileIfOnnxRejectsAPiece) {
  const TemporaryFolder folder;
  const ValueTypes types = value_types(long_chain(folder, 100'000, /*with_fault=*/true));
  EXPECT_EQ(shape_of(types, "v100000"), "n,3");  // from the previous piece
  EXPECT_EQ(shape_of(types, "z"), "unknown");
  EXPECT_EQ(shape_of(types, "x"), "n,3");
}

}  // namespace
}  // namespace whence::functions
