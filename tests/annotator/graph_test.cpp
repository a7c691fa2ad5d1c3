// graph::Graph: compact() and captured values. Also: merged origins, and casts of constants.
#include "annotator/graph/graph.h"

#include <gtest/gtest.h>

#include "annotator/program/tensor_values.h"
#include "schema/small_floats.h"
#include "tests/annotator/graph_builder.h"

namespace whence {

using graph::Graph;
using graph::GraphNode;
using graph::GraphValueId;
using origin::OriginKind;
using program::cast_tensor;
using program::integer_scalar;

namespace {

GraphValueId node(Graph& graph, const std::string& op, std::vector<GraphValueId> inputs) {
  const GraphValueId out = graph.add_value({});
  graph.add_node(GraphNode{op, "", std::move(inputs), {out}, {}, {OriginKind::own, {0}}, "", false});
  return out;
}

TEST(Graph, CompactDropsUnusedValues) {
  Graph graph;
  const GraphValueId x = graph.add_value({});
  graph.inputs = {x};
  const GraphValueId unused = graph.add_initializer("unused", integer_scalar(1, DType::int64), {}, false);
  const GraphValueId used = graph.add_initializer("used", integer_scalar(2, DType::int64), {}, false);
  node(graph, "Neg", {unused});
  graph.outputs = {node(graph, "Add", {x, used})};
  graph.compact();
  EXPECT_EQ(op_types(graph), std::vector<std::string>{"Add"});
  ASSERT_EQ(graph.initializers.size(), 1u);
  EXPECT_EQ(graph.constant(unused), nullptr);
  EXPECT_EQ(graph.integers(used), std::vector<std::int64_t>{2});
}

TEST(Graph, CompactMovesAppendedNodesBeforeTheirReaders) {
  Graph graph;
  const GraphValueId x = graph.add_value({});
  graph.inputs = {x};
  const GraphValueId old = node(graph, "Old", {x});
  graph.outputs = {node(graph, "Reader", {old})};
  graph.nodes[1].inputs = {node(graph, "Second", {node(graph, "First", {x})})};
  graph.compact();
  EXPECT_EQ(op_types(graph), (std::vector<std::string>{"First", "Second", "Reader"}));
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    EXPECT_EQ(graph.values[graph.nodes[i].outputs.front()].producer, static_cast<int>(i));
  }
}

TEST(Graph, CompactKeepsValuesThatBodiesCapture) {
  Graph graph;
  const GraphValueId condition = graph.add_value({});
  graph.inputs = {condition};
  const GraphValueId outer = node(graph, "Outer", {condition});
  const GraphValueId dead = node(graph, "Dead", {condition});
  auto body = std::make_shared<Graph>();
  const auto capture = [&](GraphValueId value) {
    graph::GraphValue inner;
    inner.captured = value;
    return body->add_value(std::move(inner));
  };
  const GraphValueId inside = capture(outer);
  capture(dead);  // captured, but unused in the body
  body->outputs = {node(*body, "Inside", {inside})};
  const GraphValueId result = graph.add_value({});
  graph.add_node(
      GraphNode{"If", "", {condition}, {result}, {{"then_branch", body}}, {OriginKind::own, {0}}, "", false});
  graph.outputs = {result};
  graph.compact();
  EXPECT_EQ(op_types(graph), (std::vector<std::string>{"Outer", "If"}));

  const Graph moved = std::move(graph);
  EXPECT_EQ(body->outer, &moved);
}

TEST(Graph, MergedOriginsAreSortedAndDistinct) {
  const origin::NodeOrigin merged =
      origin::merge_origins({OriginKind::own, {3}}, {OriginKind::shared, {1, 3}}, OriginKind::fused);
  EXPECT_EQ(merged.kind, OriginKind::fused);
  EXPECT_EQ(merged.ops, (std::vector<std::int32_t>{1, 3}));
  origin::NodeOrigin origin{OriginKind::shared, {2}};
  for (const int op : {5, 2, 1, 5}) origin::add_op(origin, op);
  EXPECT_EQ(origin.ops, (std::vector<std::int32_t>{1, 2, 5}));
}

TEST(TensorValues, RoundsToNearestEven) {
  const struct {
    float value;
    std::uint16_t half, brain;
  } rows[] = {{0.0f, 0x0000, 0x0000},          {-0.0f, 0x8000, 0x8000},         {1.0f, 0x3c00, 0x3f80},
              {-2.5f, 0xc100, 0xc020},         {65504.0f, 0x7bff, 0x4780},      {65520.0f, 0x7c00, 0x4780},
              {5.9604645e-8f, 0x0001, 0x3380}, {6.1035156e-5f, 0x0400, 0x3880}, {1.00048828125f, 0x3c00, 0x3f80},
              {1.00146484375f, 0x3c02, 0x3f80}};
  for (const auto& row : rows) {
    EXPECT_EQ(program::float16_bits(row.value), row.half) << row.value;
    EXPECT_EQ(program::bfloat16_bits(row.value), row.brain) << row.value;
  }
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    ASSERT_EQ(program::float16_bits(from_float16_bits(static_cast<std::uint16_t>(bits))), bits);
  }
}

TEST(TensorValues, CastsLikePyTorch) {
  const TensorData pi = program::number_scalar(3.75, DType::float64);
  EXPECT_EQ(single_integer(*cast_tensor(pi, DType::int32)), 3);
  EXPECT_EQ(program::single_number(*cast_tensor(pi, DType::float16)), 3.75);
  EXPECT_EQ(single_integer(*cast_tensor(pi, DType::boolean)), 1);
  EXPECT_EQ(single_integer(*cast_tensor(integer_scalar(-1, DType::int64), DType::uint8)), 255);
  EXPECT_EQ(cast_tensor(pi, DType::complex64), std::nullopt);
}

}  // namespace
}  // namespace whence
