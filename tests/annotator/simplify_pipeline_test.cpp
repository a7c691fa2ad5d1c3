// The complete pipeline: bodies, unused nodes, running time, and graphs that need no change.
#include <chrono>

#include <gtest/gtest.h>

#include "annotator/simplify/pipeline.h"
#include "tests/annotator/graph_builder.h"

namespace whence {

using graph::Graph;

namespace {

using Ints = std::vector<std::int64_t>;

TEST(Simplify, DoesNotChangeASimpleGraph) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2, 3});
  const auto product = g.node("MatMul", {x, g.parameter("w", {3, 4}, std::vector<float>(12, 1))}, {}, float32, {2, 4});
  const auto sum = g.node("Add", {product, g.parameter("b", {4}, {1, 2, 3, 4})}, {}, float32, {2, 4});
  g.output(g.node("Relu", {sum}, {}, float32, {2, 4}));
  const simplify::SimplifyReport report = simplify::simplify(g.graph, {});
  EXPECT_TRUE(report.changes.empty());
  EXPECT_EQ(g.operators(), "MatMul Add Relu");
  EXPECT_EQ(g.graph.nodes[1].origin.ops, std::vector<std::int32_t>{1});
}

TEST(Simplify, SimplifiesBodies) {
  GraphBuilder g;
  const auto flag = g.input("flag", DType::boolean, {});
  const auto x = g.node("Relu", {g.input("x", float32, {2})}, {}, float32, {2});
  const auto branch = [&](const std::string& op_type) {
    GraphBuilder body;
    graph::GraphValue captured;
    captured.captured = x;
    captured.dtype = float32;
    captured.dims = std::vector<Dim>{{2, false, none_id}};
    const auto outer = body.graph.add_value(captured);
    const auto copy = body.node("Identity", {outer}, {}, float32, {2}, 1);
    body.output(body.node(op_type, {copy}, {}, float32, {2}, 1), "");
    return std::make_shared<Graph>(std::move(body.graph));
  };
  g.output(g.node("If", {flag}, {{"then_branch", branch("Neg")}, {"else_branch", branch("Abs")}}, float32, {2}, 2));
  simplify::simplify(g.graph, {});
  EXPECT_EQ(g.operators(), "Relu If");
  const auto& body = *std::get<std::shared_ptr<Graph>>(g.graph.nodes[1].attributes[0].value);
  ASSERT_EQ(body.nodes.size(), 1U);
  EXPECT_EQ(body.nodes[0].op_type, "Neg");
}

TEST(Simplify, KeepsValuesThatABodyReads) {
  GraphBuilder g;
  const auto flag = g.input("flag", DType::boolean, {});
  const auto x = g.input("x", float32, {2});
  const auto doubled = g.node("Mul", {g.node("Identity", {x}, {}, float32, {2}), g.number(2)}, {}, float32, {2});
  const auto copy = g.node("Identity", {doubled}, {}, float32, {2});
  const auto branch = [&] {
    GraphBuilder body;
    graph::GraphValue captured;
    captured.captured = copy;
    body.output(body.node("Neg", {body.graph.add_value(captured)}, {}, float32, {2}, 1), "");
    return std::make_shared<Graph>(std::move(body.graph));
  };
  g.output(g.node("If", {flag}, {{"then_branch", branch()}, {"else_branch", branch()}}, float32, {2}));
  simplify::simplify(g.graph, {});
  EXPECT_EQ(g.operators(), "Mul If");
  const auto& body = *std::get<std::shared_ptr<Graph>>(g.graph.nodes[1].attributes[0].value);
  EXPECT_EQ(body.values[body.nodes[0].inputs[0]].captured, g.graph.nodes[0].outputs[0]);
}

TEST(Simplify, DropsUnusedNodes) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2});
  g.node("Exp", {g.node("Neg", {x}, {}, float32, {2})}, {}, float32, {2});
  g.output(g.node("Relu", {x}, {}, float32, {2}));
  simplify::simplify(g.graph, {});
  EXPECT_EQ(g.operators(), "Relu");
}

// Returns a chain of blocks with equal constants, to which several rules apply.
GraphBuilder long_chain(int blocks) {
  GraphBuilder g;
  auto value = g.input("x", float32, {-1, 4, 6});
  for (int i = 0; i < blocks; ++i) {
    value = g.node("Identity", {value}, {}, float32, {-1, 4, 6});
    value = g.node("Reshape", {value, g.integers({-1, 24})}, {}, float32, {-1, 24});
    value = g.node("Reshape", {value, g.integers({-1, 6, 4})}, {}, float32, {-1, 6, 4});
    value = g.node("Transpose", {value}, {{"perm", Ints{0, 2, 1}}}, float32, {-1, 4, 6});
    value = g.node("Relu", {value}, {}, float32, {-1, 4, 6});
    value = g.node("Mul", {value, g.number(0.5F)}, {}, float32, {-1, 4, 6});
    value = g.node("Transpose", {value}, {{"perm", Ints{0, 2, 1}}}, float32, {-1, 6, 4});
    value = g.node("Transpose", {value}, {{"perm", Ints{0, 2, 1}}}, float32, {-1, 4, 6});
  }
  g.output(value);
  return g;
}

double seconds(int blocks) {
  GraphBuilder g = long_chain(blocks);
  const auto start = std::chrono::steady_clock::now();
  simplify::simplify(g.graph, {});
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(g.graph.nodes.size(), static_cast<std::size_t>(4 * blocks));
  return time.count();
}

// 100,000 nodes take about half a second. A rule that scans the graph after each change would take minutes.
TEST(Simplify, TakesLinearTime) {
  seconds(100);
  EXPECT_LT(seconds(12500), 10);
}

}  // namespace
}  // namespace whence
