// Reads the files of write_onnx() with the onnx library.
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>

#include "annotator/origin/keys/origin.h"
#include "annotator/write/onnx_writer.h"
#include "schema/result.h"
#include "tests/annotator/graph_builder.h"
#include "tests/schema/expect_error.h"
#include "tests/schema/temporary_folder.h"

namespace whence {

namespace keys = origin::keys;
using write::write_onnx;

namespace {

onnx::ModelProto load(const std::string& path) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(content_of(path)));
  return model;
}

// y = x W + b, with a weight of 2400 bytes.
GraphBuilder linear() {
  GraphBuilder g;
  std::vector<float> weight(20 * 30);
  std::iota(weight.begin(), weight.end(), 0.0F);
  const auto x = g.input("x", DType::float32, {-1, 20});
  const auto product =
      g.node("MatMul", {x, g.parameter("dense.weight", {20, 30}, weight)}, {}, DType::float32, {-1, 30});
  const auto sum = g.node("Add", {product, g.parameter("dense.bias", {30}, std::vector<float>(30, 1))}, {},
                          DType::float32, {-1, 30});
  g.output(sum);
  return g;
}

TEST(WriteOnnx, PassesTheStrictChecker) {
  const TemporaryFolder folder;
  const GraphBuilder g = linear();
  write_onnx(g.graph, folder / "m.onnx", {.opset = 18, .producer_version = "1", .metadata = {{"key", "value"}}});
  const onnx::ModelProto model = load(folder / "m.onnx");
  EXPECT_NO_THROW(onnx::checker::check_model(model, /*full_check=*/true));
  EXPECT_EQ(model.ir_version(), 10);
  EXPECT_EQ(model.producer_name(), "whence");
  EXPECT_EQ(model.metadata_props(0).key(), "key");
  EXPECT_EQ(model.graph().initializer(0).name(), "dense.weight");
  EXPECT_EQ(model.graph().input(0).type().tensor_type().shape().dim(0).dim_param(), "d0");
  EXPECT_EQ(model.graph().node(1).metadata_props(0).key(), keys::op);
  EXPECT_EQ(model.graph().node(1).metadata_props(0).value(), "1");
}

TEST(WriteOnnx, EqualsProtobufsOutput) {
  const TemporaryFolder folder;
  const GraphBuilder g = linear();
  write_onnx(g.graph, folder / "m.onnx", {.opset = 18, .metadata = {{"a", "b"}}});
  EXPECT_EQ(load(folder / "m.onnx").SerializeAsString(), content_of(folder / "m.onnx"));
}

TEST(WriteOnnx, IsReproducible) {
  const TemporaryFolder folder;
  const GraphBuilder g = linear();
  write_onnx(g.graph, folder / "a.onnx", {});
  write_onnx(g.graph, folder / "b.onnx", {});
  EXPECT_EQ(content_of(folder / "a.onnx"), content_of(folder / "b.onnx"));
}

TEST(WriteOnnx, StoresWeightsExternallyAboveTheLimit) {
  const TemporaryFolder folder;
  const GraphBuilder g = linear();
  write_onnx(g.graph, folder / "m.onnx", {.protobuf_limit = 2000});
  const onnx::ModelProto model = load(folder / "m.onnx");
  const onnx::TensorProto& weight = model.graph().initializer(0);
  EXPECT_EQ(weight.data_location(), onnx::TensorProto::EXTERNAL);
  EXPECT_EQ(weight.external_data(0).value(), "m.onnx.data");
  EXPECT_EQ(weight.external_data(1).value(), "0");
  EXPECT_EQ(weight.external_data(2).value(), "2400");
  EXPECT_EQ(model.graph().initializer(1).raw_data().size(), 120U) << "small tensors are not external";
  EXPECT_EQ(content_of(folder / "m.onnx.data").size(), 2400U);
  EXPECT_NO_THROW(onnx::checker::check_model(folder / "m.onnx", true));
}

TEST(WriteOnnx, AlignsExternalTensors) {
  const TemporaryFolder folder;
  GraphBuilder g;
  const std::vector<float> big(500, 2);
  const auto a = g.parameter("a", {500}, big), b = g.parameter("b", {500}, big);
  g.output(g.node("Add", {a, b}, {}, DType::float32, {500}));
  write_onnx(g.graph, folder / "m.onnx", {.external = {.always = true}});
  const onnx::ModelProto model = load(folder / "m.onnx");
  EXPECT_EQ(model.graph().initializer(1).external_data(1).value(), "4096");
  EXPECT_EQ(content_of(folder / "m.onnx.data").size(), 4096U + 2000U);
}

TEST(WriteOnnx, RefusesAStructureAboveTheLimit) {
  const TemporaryFolder folder;
  const GraphBuilder g = linear();
  expect_error(Code::over_limit, [&] { write_onnx(g.graph, folder / "m.onnx", {.protobuf_limit = 100}); });
  EXPECT_EQ(folder.file_count(), 0U);
}

TEST(WriteOnnx, DoesNotChangeTheTargetOnFailure) {
  const TemporaryFolder folder;
  GraphBuilder g = linear();
  std::ofstream(folder / "m.onnx") << "before";
  g.graph.initializers[0].data.dtype = DType::undefined;
  EXPECT_THROW(write_onnx(g.graph, folder / "m.onnx", {}), Error);
  EXPECT_EQ(content_of(folder / "m.onnx"), "before");
  EXPECT_THROW(write_onnx(linear().graph, folder / "missing/m.onnx", {}), Error);
  EXPECT_EQ(folder.file_count(), 1U);
}

TEST(WriteOnnx, MakesNamesUnique) {
  const TemporaryFolder folder;
  GraphBuilder g;
  const auto x = g.input("x", DType::float32, {2});
  const auto a = g.node("Relu", {x}, {}, DType::float32, {2});
  const auto b = g.node("Relu", {a}, {}, DType::float32, {2});
  g.graph.values[a].name = "x";
  g.graph.nodes[0].name = g.graph.nodes[1].name = "/Relu";
  g.output(b, "y");
  write_onnx(g.graph, folder / "m.onnx", {});
  const onnx::ModelProto model = load(folder / "m.onnx");
  EXPECT_EQ(model.graph().node(0).output(0), "x_1");
  EXPECT_EQ(model.graph().node(1).input(0), "x_1");
  EXPECT_EQ(model.graph().node(0).name(), "/Relu");
  EXPECT_EQ(model.graph().node(1).name(), "/Relu_1");
}

TEST(WriteOnnx, WritesNoValueForUnnamedSizes) {
  const TemporaryFolder folder;
  GraphBuilder g;
  const auto x = g.input("x", DType::float32, {-1, 2});
  (*g.graph.values[x].dims)[0].symbol = none_id;
  g.output(g.node("Relu", {x}, {}, DType::float32, {-1, 2}));
  write_onnx(g.graph, folder / "m.onnx", {});
  const onnx::ModelProto model = load(folder / "m.onnx");
  const auto& dim = model.graph().input(0).type().tensor_type().shape().dim(0);
  EXPECT_EQ(dim.value_case(), onnx::TensorShapeProto_Dimension::VALUE_NOT_SET);
}

TEST(WriteOnnx, WritesBodiesWithCaptures) {
  const TemporaryFolder folder;
  GraphBuilder g;
  const auto flag = g.input("flag", DType::boolean, {});
  const auto x = g.input("x", DType::float32, {2});
  const auto outer = g.node("Relu", {x}, {}, DType::float32, {2});
  const auto branch = [&](const std::string& op_type) {
    GraphBuilder body;
    graph::GraphValue captured;
    captured.captured = outer;
    captured.dtype = DType::float32;
    captured.dims = std::vector<Dim>{{2, false, none_id}};
    body.output(body.node(op_type, {body.graph.add_value(captured)}, {}, DType::float32, {2}, 1), "");
    return std::make_shared<graph::Graph>(std::move(body.graph));
  };
  g.output(
      g.node("If", {flag}, {{"then_branch", branch("Neg")}, {"else_branch", branch("Abs")}}, DType::float32, {2}, 2));
  write_onnx(g.graph, folder / "m.onnx", {});
  const onnx::ModelProto model = load(folder / "m.onnx");
  EXPECT_NO_THROW(onnx::checker::check_model(model, true));
  const onnx::GraphProto& then_branch = model.graph().node(1).attribute(0).g();
  EXPECT_EQ(then_branch.node(0).input(0), model.graph().node(0).output(0));
  EXPECT_EQ(then_branch.node(0).metadata_props(0).value(), "1");
}

TEST(WriteOnnx, ImportsCustomDomainsAndWritesTypesOfTheirResults) {
  const TemporaryFolder folder;
  GraphBuilder g;
  const auto x = g.input("x", DType::float32, {2});
  const auto custom = g.node("Special", {x}, {}, DType::float32, {2});
  g.graph.nodes[0].domain = "my.domain";
  g.output(g.node("Relu", {custom}, {}, DType::float32, {2}));
  write_onnx(g.graph, folder / "m.onnx", {.opset = 17});
  const onnx::ModelProto model = load(folder / "m.onnx");
  ASSERT_EQ(model.opset_import_size(), 2);
  EXPECT_EQ(model.opset_import(0).version(), 17);
  EXPECT_EQ(model.opset_import(1).domain(), "my.domain");
  EXPECT_EQ(model.graph().value_info_size(), 1);
}

}  // namespace
}  // namespace whence
