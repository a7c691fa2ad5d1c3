// Applies each rule of annotator/simplify to the smallest graph that it changes, and to a similar graph that it must
// not change.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "annotator/program/tensor_values.h"
#include "annotator/simplify/pipeline.h"
#include "tests/annotator/graph_builder.h"

namespace whence {

using graph::GraphValueId;
using origin::OriginKind;

namespace {

using Ints = std::vector<std::int64_t>;

std::string simplified(GraphBuilder& g) {
  simplify::simplify(g.graph, {});
  return g.operators();
}

std::string refusals(GraphBuilder& g) {
  std::string text;
  for (const simplify::Refusal& refusal : simplify::simplify(g.graph, {}).refusals)
    text += refusal.rule + ": " + refusal.why + "\n";
  return text;
}

std::vector<float> floats(const graph::Graph& graph, GraphValueId value) {
  const program::Elements elements = program::Elements::of(*graph.constant(value)).value();
  std::vector<float> result;
  for (std::size_t i = 0; i < elements.size(); ++i) result.push_back(static_cast<float>(elements.number(i)));
  return result;
}

Ints perm(const graph::GraphNode& node) { return std::get<Ints>(node.find("perm")->value); }

// ---- remove_no_op

TEST(RemoveNoOp, DropsIdentityBetweenNodes) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2});
  g.output(g.node("Relu", {g.node("Identity", {x}, {}, float32, {2})}, {}, float32, {2}));
  EXPECT_EQ(simplified(g), "Relu");
  EXPECT_EQ(g.graph.nodes[0].inputs[0], x);
}

TEST(RemoveNoOp, PreservesTheNameOfTheOutput) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2});
  g.output(g.node("Identity", {g.node("Relu", {x}, {}, float32, {2})}, {}, float32, {2}), "result");
  EXPECT_EQ(simplified(g), "Relu");
  EXPECT_EQ(g.graph.values[g.graph.outputs[0]].name, "result");
}

TEST(RemoveNoOp, KeepsAnIdentityFromInputToOutput) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2});
  g.output(g.node("Identity", {x}, {}, float32, {2}));
  EXPECT_EQ(refusals(g), "remove_no_op: a graph output needs a node that computes it\n");
  EXPECT_EQ(g.operators(), "Identity");
}

TEST(RemoveNoOp, DropsAddedZerosExceptAParameter) {
  for (const bool parameter : {false, true}) {
    GraphBuilder g;
    const auto zeroes = g.constant<float>(float32, {2}, {0, 0}, parameter ? "layer.bias" : "");
    const auto sum = g.node("Add", {g.input("x", float32, {2}), zeroes}, {}, float32, {2});
    g.output(g.node("Relu", {sum}, {}, float32, {2}));
    EXPECT_EQ(simplified(g), parameter ? "Add Relu" : "Relu");
  }
}

TEST(RemoveNoOp, KeepsOneNodeForEachOfTwoEqualOutputs) {
  GraphBuilder g;
  const auto y = g.node("Relu", {g.input("x", float32, {2})}, {}, float32, {2});
  g.output(y, "a");
  g.output(g.node("Identity", {y}, {}, float32, {2}), "b");
  EXPECT_EQ(simplified(g), "Relu Identity");
}

TEST(RemoveNoOp, DropsOnlyCastsToTheSameDtype) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2});
  const auto cast = g.node("Cast", {x}, {{"to", std::int64_t{to_onnx(float32)}}}, float32, {2});
  g.output(g.node("Cast", {cast}, {{"to", std::int64_t{to_onnx(int64)}}}, int64, {2}));
  EXPECT_EQ(simplified(g), "Cast");
}

TEST(RemoveNoOp, DropsReshapeToTheSameShape) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {-1, 4, 8});
  const auto reshaped = g.node("Reshape", {x, g.integers({0, 4, -1})}, {}, float32, {-1, 4, 8});
  g.output(g.node("Relu", {reshaped}, {}, float32, {-1, 4, 8}));
  EXPECT_EQ(simplified(g), "Relu");
}

TEST(RemoveNoOp, KeepsReshapeThatMovesTwoDynamicSizes) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {-1, -1, 8});
  const auto reshaped = g.node("Reshape", {x, g.input("shape", int64, {3})}, {}, float32, {-1, -1, 8});
  g.output(g.node("Relu", {reshaped}, {}, float32, {-1, -1, 8}));
  EXPECT_EQ(simplified(g), "Reshape Relu");
}

TEST(RemoveNoOp, DropsNeutralArithmetic) {
  GraphBuilder g;
  auto value = g.input("x", float32, {2, 3});
  value = g.node("Mul", {g.number(1), value}, {}, float32, {2, 3});
  value = g.node("Add", {value, g.number(0)}, {}, float32, {2, 3});
  value = g.node("Div", {value, g.constant<float>(float32, {3}, {1, 1, 1})}, {}, float32, {2, 3});
  g.output(g.node("Relu", {value}, {}, float32, {2, 3}));
  EXPECT_EQ(simplified(g), "Relu");
}

TEST(RemoveNoOp, KeepsNeutralArithmeticThatBroadcasts) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {3});
  const auto wide =
      g.node("Add", {x, g.constant<float>(float32, {2, 3}, std::vector<float>(6, 0))}, {}, float32, {2, 3});
  g.output(g.node("Sub", {g.number(0), wide}, {}, float32, {2, 3}));
  EXPECT_EQ(simplified(g), "Add Sub");
}

// The condition is a mask with equal elements, expanded to a dynamic batch.
TEST(RemoveNoOp, DropsWhereWithAConstantCondition) {
  for (const bool condition : {true, false}) {
    GraphBuilder g;
    const auto x = g.input("x", float32, {4, 3}), y = g.input("y", float32, {4, 3});
    const std::uint8_t element = condition ? 1 : 0;
    const auto mask = g.constant<std::uint8_t>(DType::boolean, {1, 3}, {element, element, element});
    const auto wide = g.node("Expand", {mask, g.input("shape", int64, {2})}, {}, DType::boolean, {-1, 3});
    const auto selected = g.node("Where", {wide, x, y}, {}, float32, {4, 3});
    g.output(g.node("Relu", {selected}, {}, float32, {4, 3}));
    EXPECT_EQ(simplified(g), "Relu");
    EXPECT_EQ(g.graph.nodes[0].inputs[0], condition ? x : y);
  }
}

TEST(RemoveNoOp, DropsWhereIfAllIndicesAreInRange) {
  for (const std::int64_t bound : {0, 1}) {
    GraphBuilder g;
    const auto x = g.input("x", float32, {4, 3}), y = g.input("y", float32, {4, 3});
    const auto number = [&](std::int64_t value) { return g.constant<std::int64_t>(int64, {}, {value}); };
    const auto indices = g.node("Range", {number(0), g.input("n", int64, {}), number(1)}, {}, int64, {-1});
    const auto mask = g.node("GreaterOrEqual", {indices, number(bound)}, {}, DType::boolean, {-1});
    g.output(g.node("Relu", {g.node("Where", {mask, x, y}, {}, float32, {4, 3})}, {}, float32, {4, 3}));
    EXPECT_EQ(simplified(g), bound == 0 ? "Relu" : "Range GreaterOrEqual Where Relu");
  }
}

TEST(RemoveNoOp, KeepsWhereThatSelectsOrBroadcasts) {
  for (const bool widens : {true, false}) {
    GraphBuilder g;
    const auto x = g.input("x", float32, {widens ? 1 : 4, 3}), y = g.input("y", float32, {4, 3});
    const std::uint8_t middle = widens ? 1 : 0;
    const auto mask = g.constant<std::uint8_t>(DType::boolean, {1, 3}, {1, middle, 1});
    const auto wide = g.node("Expand", {mask, g.input("shape", int64, {2})}, {}, DType::boolean, {4, 3});
    g.output(g.node("Relu", {g.node("Where", {wide, x, y}, {}, float32, {4, 3})}, {}, float32, {4, 3}));
    EXPECT_EQ(simplified(g), "Expand Where Relu");
  }
}

TEST(RemoveNoOp, DropsSlicePadExpandAndDropoutWithoutEffect) {
  GraphBuilder g;
  auto value = g.input("x", float32, {2, 3});
  value = g.node("Slice", {value, g.integers({0}), g.integers({9223372036854775807}), g.integers({1})}, {}, float32,
                 {2, 3});
  value = g.node("Pad", {value, g.integers({0, 0, 0, 0})}, {}, float32, {2, 3});
  value = g.node("Expand", {value, g.integers({1, 3})}, {}, float32, {2, 3});
  value = g.node("Dropout", {value}, {}, float32, {2, 3});
  g.output(g.node("Relu", {value}, {}, float32, {2, 3}));
  EXPECT_EQ(simplified(g), "Relu");
}

TEST(RemoveNoOp, KeepsASliceThatReversesTheOrder) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2, 3});
  const auto negated = g.node("Neg", {x}, {}, float32, {2, 3});
  const auto reversed = g.node(
      "Slice", {negated, g.integers({-1}), g.integers({-9223372036854775807}), g.integers({1}), g.integers({-1})}, {},
      float32, {2, 3});
  g.output(g.node("Neg", {reversed}, {}, float32, {2, 3}));
  EXPECT_EQ(simplified(g), "Neg Slice Neg");
}

// ---- chains

TEST(CastChain, SkipsALosslessCast) {
  GraphBuilder g;
  const auto x = g.input("x", DType::int32, {2});
  const auto wide = g.node("Cast", {x}, {{"to", std::int64_t{to_onnx(int64)}}}, int64, {2});
  g.output(g.node("Cast", {wide}, {{"to", std::int64_t{to_onnx(float32)}}}, float32, {2}));
  EXPECT_EQ(simplified(g), "Cast");
  EXPECT_EQ(g.graph.nodes[0].origin.kind, OriginKind::fused);
  EXPECT_EQ(g.graph.nodes[0].origin.ops, (std::vector<std::int32_t>{0, 1}));
}

TEST(CastChain, KeepsACastThatRounds) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2});
  const auto rounded = g.node("Cast", {x}, {{"to", std::int64_t{to_onnx(int64)}}}, int64, {2});
  g.output(g.node("Cast", {rounded}, {{"to", std::int64_t{to_onnx(float32)}}}, float32, {2}));
  EXPECT_EQ(refusals(g), "cast_chain: the first Cast may round\n");
}

TEST(TransposeChain, ComposesThePermutations) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2, 3, 4});
  const auto first = g.node("Transpose", {x}, {{"perm", Ints{1, 2, 0}}}, float32, {3, 4, 2});
  g.output(g.node("Transpose", {first}, {{"perm", Ints{0, 2, 1}}}, float32, {3, 2, 4}));
  EXPECT_EQ(simplified(g), "Transpose");
  EXPECT_EQ(perm(g.graph.nodes[0]), (Ints{1, 0, 2}));
}

TEST(TransposeChain, IsRemovedIfTheSecondUndoesTheFirst) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2, 3});
  const auto transposed = g.node("Transpose", {x}, {{"perm", Ints{1, 0}}}, float32, {3, 2});
  const auto back = g.node("Transpose", {transposed}, {{"perm", Ints{1, 0}}}, float32, {2, 3});
  g.output(g.node("Relu", {back}, {}, float32, {2, 3}));
  EXPECT_EQ(simplified(g), "Relu");
}

TEST(UnsqueezeChain, MergesAxes) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {-1, 3});
  const auto first = g.node("Unsqueeze", {x, g.integers({1})}, {}, float32, {-1, 1, 3});
  g.output(g.node("Unsqueeze", {first, g.integers({-1})}, {}, float32, {-1, 1, 3, 1}));
  EXPECT_EQ(simplified(g), "Unsqueeze");
  EXPECT_EQ(g.graph.integers(g.graph.nodes[0].inputs[1]), (Ints{1, 3}));
}

TEST(UnsqueezeChain, UndoesASqueeze) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {-1, 1, 3});
  const auto squeezed = g.node("Squeeze", {x, g.integers({1})}, {}, float32, {-1, 3});
  const auto back = g.node("Unsqueeze", {squeezed, g.integers({1})}, {}, float32, {-1, 1, 3});
  g.output(g.node("Relu", {back}, {}, float32, {-1, 1, 3}));
  EXPECT_EQ(simplified(g), "Relu");
}

TEST(UnsqueezeChain, KeepsAnAxisThatMoves) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {-1, 1, 3});
  const auto squeezed = g.node("Squeeze", {x, g.integers({1})}, {}, float32, {-1, 3});
  g.output(g.node("Unsqueeze", {squeezed, g.integers({0})}, {}, float32, {1, -1, 3}));
  EXPECT_EQ(refusals(g), "unsqueeze_chain: axes are both added and dropped\n");
}

TEST(ReshapeChain, SkipsTheFirstReshape) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {-1, 4, 6});
  const auto first = g.node("Reshape", {x, g.integers({-1, 24})}, {}, float32, {-1, 24});
  g.output(g.node("Reshape", {first, g.integers({-1, 8, 3})}, {}, float32, {-1, 8, 3}));
  EXPECT_EQ(simplified(g), "Reshape");
  EXPECT_EQ(g.graph.nodes[0].inputs[0], x);
}

TEST(ReshapeChain, ReplacesTheCopiedSizes) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {-1, 4, 6});
  const auto first = g.node("Reshape", {x, g.integers({24, -1})}, {}, float32, {24, -1});
  g.output(g.node("Reshape", {first, g.integers({0, 3, -1})}, {}, float32, {24, 3, -1}));
  EXPECT_EQ(simplified(g), "Reshape");
  EXPECT_EQ(g.graph.integers(g.graph.nodes[0].inputs[1]), (Ints{24, 3, -1}));
}

TEST(ReshapeChain, InfersASingleCopiedDynamicSize) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {-1, 6});
  const auto first = g.node("Reshape", {x, g.integers({-1, 4, 6})}, {}, float32, {-1, 4, 6});
  g.output(g.node("Reshape", {first, g.integers({0, 0, 2, 3})}, {}, float32, {-1, 4, 2, 3}));
  EXPECT_EQ(simplified(g), "Reshape");
  EXPECT_EQ(g.graph.integers(g.graph.nodes[0].inputs[1]), (Ints{-1, 4, 2, 3}));
}

TEST(ReshapeChain, KeepsACopiedDynamicSizeNextToAnother) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {-1, 4, 6});
  const auto first = g.node("Reshape", {x, g.integers({-1, 24})}, {}, float32, {-1, 24});
  g.output(g.node("Reshape", {first, g.integers({0, 8, -1})}, {}, float32, {-1, 8, 3}));
  EXPECT_EQ(refusals(g), "reshape_chain: the shape copies a dynamic size\n");
}

TEST(ReshapeChain, AbsorbsAnUnsqueeze) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {-1, 6});
  const auto first = g.node("Reshape", {x, g.integers({-1, 2, 3})}, {}, float32, {-1, 2, 3});
  g.output(g.node("Unsqueeze", {first, g.integers({1})}, {}, float32, {-1, 1, 2, 3}));
  EXPECT_EQ(simplified(g), "Reshape");
  EXPECT_EQ(g.graph.integers(g.graph.nodes[0].inputs[1]), (Ints{-1, 1, 2, 3}));
}

// A batched product of flattened batches, like PyTorch's bmm: [*sizes, 3, 4] x [*sizes, 4, 5], reshaped to
// [*result_sizes, 3, 5].
std::string simplified_bmm(const Ints& sizes, const Ints& result_sizes) {
  GraphBuilder g;
  const auto concatenated = [](Ints start, const Ints& end) {
    start.insert(start.end(), end.begin(), end.end());
    return start;
  };
  const auto a = g.input("a", float32, concatenated(sizes, {3, 4})),
             b = g.input("b", float32, concatenated(sizes, {4, 5}));
  const auto flat_a = g.node("Reshape", {a, g.integers({-1, 3, 4})}, {}, float32, {6, 3, 4});
  const auto flat_b = g.node("Reshape", {b, g.integers({-1, 4, 5})}, {}, float32, {6, 4, 5});
  const auto product = g.node("MatMul", {flat_a, flat_b}, {}, float32, {6, 3, 5});
  const Ints shape = concatenated(result_sizes, {3, 5});
  g.output(g.node("Reshape", {product, g.integers(shape)}, {}, float32, shape));
  return simplified(g);
}

TEST(MatmulReshape, MultipliesBatchesOfAnyRank) { EXPECT_EQ(simplified_bmm({2, 3}, {2, 3}), "MatMul"); }

TEST(MatmulReshape, KeepsBatchesThatChangeTheirSizes) {
  EXPECT_EQ(simplified_bmm({2, 3}, {3, 2}), "Reshape Reshape MatMul Reshape");
}

TEST(MatmulReshape, MultipliesRowsByOneMatrix) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2, 3, 4});
  const auto rows = g.node("Reshape", {x, g.integers({-1, 4})}, {}, float32, {6, 4});
  const auto product = g.node("MatMul", {rows, g.parameter("w", {4, 5}, std::vector<float>(20))}, {}, float32, {6, 5});
  g.output(g.node("Reshape", {product, g.integers({2, 3, 5})}, {}, float32, {2, 3, 5}));
  EXPECT_EQ(simplified(g), "MatMul");
}

TEST(GemmTranspose, AbsorbsATranspose) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2, 3}), w = g.input("w", float32, {4, 3});
  const auto transposed = g.node("Transpose", {w}, {{"perm", Ints{1, 0}}}, float32, {3, 4});
  g.output(g.node("Gemm", {x, transposed}, {}, float32, {2, 4}));
  EXPECT_EQ(simplified(g), "Gemm");
  EXPECT_EQ(g.graph.nodes[0].int_attribute("transB", 0), 1);
  EXPECT_EQ(g.graph.nodes[0].inputs[1], w);
}

TEST(GemmTranspose, UndoesATransB) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2, 3}), w = g.input("w", float32, {3, 4});
  const auto transposed = g.node("Transpose", {w}, {{"perm", Ints{1, 0}}}, float32, {4, 3});
  g.output(g.node("Gemm", {x, transposed}, {{"transB", std::int64_t{1}}}, float32, {2, 4}));
  EXPECT_EQ(simplified(g), "Gemm");
  EXPECT_EQ(g.graph.nodes[0].int_attribute("transB", 1), 0);
}

std::string simplified_bounds(const char* inner, float first, const char* outer, float second) {
  GraphBuilder g;
  const auto inside = g.node(inner, {g.input("x", float32, {2}), g.number(first)}, {}, float32, {2});
  g.output(g.node(outer, {g.number(second), inside}, {}, float32, {2}));
  return simplified(g);
}

TEST(ClipChain, JoinsTwoBounds) {
  EXPECT_EQ(simplified_bounds("Max", 0, "Min", 6), "Clip");
  EXPECT_EQ(simplified_bounds("Min", 6, "Max", 0), "Clip");
}

TEST(ClipChain, KeepsBoundsThatCross) {
  EXPECT_EQ(simplified_bounds("Max", 6, "Min", 0), "Max Min");
  EXPECT_EQ(simplified_bounds("Max", 0, "Max", 6), "Max Max");
}

TEST(ScalarChain, MultipliesFactorsIfTheProductIsExact) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2});
  const auto first = g.node("Mul", {x, g.number(0.3F)}, {}, float32, {2});
  g.output(g.node("Div", {first, g.number(4)}, {}, float32, {2}));
  EXPECT_EQ(simplified(g), "Mul");
  EXPECT_EQ(floats(g.graph, g.graph.nodes[0].inputs[1]), std::vector{0.3F / 4});
}

TEST(ScalarChain, KeepsFactorsIfTheProductIsRounded) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2});
  const auto first = g.node("Mul", {x, g.number(0.3F)}, {}, float32, {2});
  g.output(g.node("Mul", {first, g.number(0.7F)}, {}, float32, {2}));
  EXPECT_EQ(refusals(g), "scalar_chain: the product of the factors would round differently\n");
}

// ---- folding

TEST(FoldShape, NeedsOnlyTheGatheredSizes) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {-1, 4, 6});
  const auto shape = g.node("Shape", {x}, {}, int64, {3});
  const auto fixed_sizes = g.node("Gather", {shape, g.integers({1, 2})}, {}, int64, {2});
  const auto dynamic_size = g.node("Gather", {shape, g.integers({0})}, {}, int64, {1});
  g.output(g.node("Concat", {dynamic_size, fixed_sizes}, {{"axis", std::int64_t{0}}}, int64, {3}));
  EXPECT_EQ(simplified(g), "Shape Gather Concat");
  EXPECT_EQ(g.graph.integers(g.graph.nodes[2].inputs[1]), (Ints{4, 6}));
}

TEST(FoldConstants, ComputesLikeRuntimes) {
  struct Case {
    const char* op_type;
    Ints a, b, expected;
  };
  const Case cases[] = {{"Add", {2, 3}, {10}, {12, 13}}, {"Sub", {2}, {5}, {-3}},      {"Mul", {2, 3}, {4, 5}, {8, 15}},
                        {"Div", {-7, 7}, {2}, {-3, 3}},  {"Min", {2, 9}, {5}, {2, 5}}, {"Max", {2, 9}, {5}, {5, 9}}};
  for (const Case& test : cases) {
    GraphBuilder g;
    const auto x = g.input("x", int64, {static_cast<std::int64_t>(test.expected.size())});
    const auto folded = g.node(test.op_type, {g.integers(test.a), g.integers(test.b)}, {}, int64,
                               {static_cast<std::int64_t>(test.expected.size())});
    g.output(g.node("Add", {x, folded}, {}, int64, {static_cast<std::int64_t>(test.expected.size())}));
    EXPECT_EQ(simplified(g), "Add") << test.op_type;
    EXPECT_EQ(g.graph.integers(g.graph.nodes[0].inputs[1]), test.expected) << test.op_type;
  }
}

TEST(FoldConstants, DoesNotFoldADivisionByZero) {
  GraphBuilder g;
  const auto x = g.input("x", int64, {1});
  g.output(g.node("Add", {x, g.node("Div", {g.integers({1}), g.integers({0})}, {}, int64, {1})}, {}, int64, {1}));
  EXPECT_EQ(simplified(g), "Div Add");
}

TEST(FoldConstants, FoldsCompleteShapeComputations) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2, 3, 4});
  const auto shape = g.node("Shape", {x}, {}, int64, {3});
  const auto tail = g.node("Slice", {shape, g.integers({1}), g.integers({3})}, {}, int64, {2});
  const auto product = g.node("ReduceProd", {tail}, {{"keepdims", std::int64_t{1}}}, int64, {1});
  const auto target = g.node("Concat", {g.integers({-1}), product}, {{"axis", std::int64_t{0}}}, int64, {2});
  g.output(g.node("Reshape", {x, target}, {}, float32, {2, 12}));
  EXPECT_EQ(simplified(g), "Reshape");
  EXPECT_EQ(g.graph.integers(g.graph.nodes[0].inputs[1]), (Ints{-1, 12}));
}

// Storing a table that is computed from two stored vectors would enlarge the file. A table that is computed from one
// number is folded.
TEST(FoldConstants, DoesNotFoldATableOfStoredVectors) {
  for (const bool stored : {true, false}) {
    GraphBuilder g;
    const auto x = g.input("x", float32, {30, 30});
    const std::vector<float> numbers(30, 2);
    const auto table =
        stored ? g.node("Mul", {g.parameter("rows", {30, 1}, numbers), g.parameter("row", {1, 30}, numbers)}, {},
                        float32, {30, 30})
               : g.node("Expand", {g.constant<float>(float32, {}, {2}), g.integers({30, 30})}, {}, float32, {30, 30});
    const auto root = g.node("Sqrt", {table}, {}, float32, {30, 30});
    g.output(g.node("Add", {x, root}, {}, float32, {30, 30}));
    EXPECT_EQ(simplified(g), stored ? "Mul Sqrt Add" : "Add");
  }
}

TEST(FoldLayout, TransposesAWeightWithOneReader) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {1, 2});
  const auto w = g.parameter("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  const auto transposed = g.node("Transpose", {w}, {{"perm", Ints{1, 0}}}, float32, {2, 3});
  g.output(g.node("MatMul", {x, transposed}, {}, float32, {1, 3}));
  EXPECT_EQ(simplified(g), "MatMul");
  EXPECT_EQ(floats(g.graph, g.graph.nodes[0].inputs[1]), (std::vector<float>{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(g.graph.values[g.graph.nodes[0].inputs[1]].name, "w.T");
}

// spectral_norm reads the weight as a matrix, but only to compute the divisor of the weight.
TEST(FoldLayout, FoldsALayoutThatOnlyASmallConstantNeeds) {
  GraphBuilder g;
  const auto weight = g.parameter("w", {2, 3, 100}, std::vector<float>(600, 0.5F));
  const auto matrix = g.node("Flatten", {weight}, {{"axis", std::int64_t{1}}}, float32, {2, 300});
  const auto product =
      g.node("MatMul", {matrix, g.constant<float>(float32, {300}, std::vector<float>(300, 2))}, {}, float32, {2});
  const auto norm = g.node("MatMul", {g.constant<float>(float32, {2}, {1, 2}), product}, {}, float32, {});
  const auto divided = g.node("Div", {weight, norm}, {}, float32, {2, 3, 100});
  g.output(g.node("Add", {g.input("x", float32, {2, 3, 100}), divided}, {}, float32, {2, 3, 100}));
  EXPECT_EQ(simplified(g), "Add");
  EXPECT_FLOAT_EQ(floats(g.graph, g.graph.nodes[0].inputs[1])[0], 0.5F / 900);
}

TEST(FoldLayout, DoesNotStoreALargeWeightTwice) {
  GraphBuilder g;
  const auto ids = g.input("ids", int64, {1});
  const auto w = g.parameter("w", {500, 20}, std::vector<float>(10000, 1));
  const auto rows = g.node("Gather", {w, ids}, {}, float32, {1, 20});
  const auto transposed = g.node("Transpose", {w}, {{"perm", Ints{1, 0}}}, float32, {20, 500});
  g.output(g.node("MatMul", {rows, transposed}, {}, float32, {1, 500}));
  EXPECT_EQ(refusals(g), "fold_layout: other nodes use the weight without the Transpose\n");
}

// A quantised int8 weight would be four times as large in float32.
TEST(FoldLayout, DoesNotWidenANarrowWeight) {
  for (const DType dtype : {DType::int8, DType::float16, DType::float64}) {
    GraphBuilder g;
    const std::string bytes(1000 * size_of(dtype), '\0');
    const auto x = g.input("x", float32, {10, 100});
    const auto w = g.graph.add_initializer("w", {dtype, {10, 100}, Bytes::owned(bytes)}, {}, true);
    const auto wide = g.node("Cast", {w}, {{"to", std::int64_t{1}}}, float32, {10, 100});
    g.output(g.node("Add", {x, wide}, {}, float32, {10, 100}));
    EXPECT_EQ(simplified(g), dtype == DType::float64 ? "Add" : "Cast Add") << name_of(dtype);
  }
}

// ---- conv_batch_norm

struct Statistics {
  float scale, offset, mean, variance;
};

GraphValueId normalize(GraphBuilder& g, GraphValueId x, const std::string& name,
                       const std::vector<Statistics>& channels, const Ints& sizes) {
  std::vector<float> columns[4];
  for (const Statistics& s : channels) {
    columns[0].push_back(s.scale);
    columns[1].push_back(s.offset);
    columns[2].push_back(s.mean);
    columns[3].push_back(s.variance);
  }
  const Ints shape = {static_cast<std::int64_t>(channels.size())};
  std::vector<GraphValueId> inputs = {x};
  for (int i = 0; i < 4; ++i) inputs.push_back(g.parameter(name + "." + std::to_string(i), shape, columns[i]));
  return g.node("BatchNormalization", inputs, {{"epsilon", 0.0F}}, float32, sizes);
}

TEST(ConvBatchNorm, FoldsIntoWeightAndBias) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {1, 1, 2, 2});
  const auto w = g.parameter("conv.weight", {2, 1, 1, 1}, {3, 5});
  const auto b = g.parameter("conv.bias", {2}, {1, 2});
  const auto y = g.node("Conv", {x, w, b}, {}, float32, {1, 2, 2, 2});
  g.output(normalize(g, y, "bn", {{2, 7, 1, 4}, {3, 8, 2, 9}}, {1, 2, 2, 2}));
  EXPECT_EQ(simplified(g), "Conv");
  const graph::GraphNode& conv = g.graph.nodes[0];
  EXPECT_EQ(floats(g.graph, conv.inputs[1]),
            (std::vector<float>{3, 5}));  // scale / sqrt(variance) is 1 in both channels
  EXPECT_EQ(floats(g.graph, conv.inputs[2]), (std::vector<float>{7, 8}));
  EXPECT_EQ(g.graph.values[conv.inputs[1]].name, "conv.weight");
  EXPECT_EQ(g.graph.values[conv.inputs[2]].name, "conv.bias");
  EXPECT_EQ(conv.origin.kind, OriginKind::fused);
  EXPECT_EQ(conv.origin.ops, (std::vector<std::int32_t>{0, 1}));
}

TEST(ConvBatchNorm, ScalesTheChannelsOfATransposedGroupedConvolution) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {1, 2, 1, 1});
  const auto w = g.parameter("w", {2, 2, 1, 1}, {1, 1, 1, 1});  // 2 groups, 2 output channels each
  const auto y = g.node("ConvTranspose", {x, w}, {{"group", std::int64_t{2}}}, float32, {1, 4, 1, 1});
  g.output(normalize(g, y, "bn", {{1, 0, 0, 1}, {2, 0, 0, 1}, {3, 0, 0, 1}, {4, 0, 0, 1}}, {1, 4, 1, 1}));
  EXPECT_EQ(simplified(g), "ConvTranspose");
  EXPECT_EQ(floats(g.graph, g.graph.nodes[0].inputs[1]), (std::vector<float>{1, 2, 3, 4}));
}

TEST(ConvBatchNorm, NeedsAResultWithOneReader) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {1, 1, 1, 1});
  const auto y = g.node("Conv", {x, g.parameter("w", {1, 1, 1, 1}, {2})}, {}, float32, {1, 1, 1, 1});
  const auto z = normalize(g, y, "bn", {{1, 0, 0, 4}}, {1, 1, 1, 1});
  g.output(g.node("Add", {y, z}, {}, float32, {1, 1, 1, 1}));
  EXPECT_EQ(refusals(g), "conv_batch_norm: the convolution's result is used elsewhere\n");
}

TEST(ConvBatchNorm, FoldsASharedWeightOnce) {
  GraphBuilder g;
  const auto w = g.parameter("w", {1, 1, 1, 1}, {2});
  auto value = g.input("x", float32, {1, 1, 1, 1});
  GraphValueId statistics[4];
  for (int i = 0; i < 4; ++i) statistics[i] = g.parameter("bn." + std::to_string(i), {1}, {i == 3 ? 4.0F : 1.0F});
  for (int call = 0; call < 2; ++call) {
    value = g.node("Conv", {value, w}, {}, float32, {1, 1, 1, 1});
    value = g.node("BatchNormalization", {value, statistics[0], statistics[1], statistics[2], statistics[3]}, {},
                   float32, {1, 1, 1, 1});
  }
  g.output(value);
  EXPECT_EQ(simplified(g), "Conv Conv");
  EXPECT_EQ(g.graph.nodes[0].inputs[1], g.graph.nodes[1].inputs[1]);
  EXPECT_EQ(g.graph.initializers.size(), 2U);
}

TEST(ConvBatchNorm, DoesNotFoldTwoNormsIntoOneWeight) {
  GraphBuilder g;
  const auto w = g.parameter("w", {1, 1, 1, 1}, {2});
  auto value = g.input("x", float32, {1, 1, 1, 1});
  for (const char* name : {"first", "second"}) {
    value = g.node("Conv", {value, w}, {}, float32, {1, 1, 1, 1});
    value = normalize(g, value, name, {{1, 0, 0, 4}}, {1, 1, 1, 1});
  }
  g.output(value);
  EXPECT_EQ(simplified(g), "Conv BatchNormalization Conv BatchNormalization");
}

// ---- sharing

TEST(ShareConstants, MergesEqualConstants) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2});
  const auto a = g.node("Mul", {x, g.number(3)}, {}, float32, {2});
  g.output(g.node("Sub", {a, g.number(3)}, {}, float32, {2}));
  simplified(g);
  EXPECT_EQ(g.graph.initializers.size(), 1U);
}

TEST(ShareConstants, DoesNotMergeParameters) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2});
  const auto a = g.node("Mul", {x, g.parameter("a", {2}, {3, 4})}, {}, float32, {2});
  g.output(g.node("Mul", {a, g.parameter("b", {2}, {3, 4})}, {}, float32, {2}));
  simplified(g);
  EXPECT_EQ(g.graph.initializers.size(), 2U);
}

TEST(ShareNodes, MergesEqualHelpers) {
  GraphBuilder g;
  const auto mask = g.input("mask", DType::boolean, {2});
  const auto x = g.input("x", float32, {2});
  const auto cast = [&] { return g.node("Cast", {mask}, {{"to", std::int64_t{to_onnx(float32)}}}, float32, {2}); };
  const auto a = g.node("Mul", {x, cast()}, {}, float32, {2});
  g.output(g.node("Add", {a, cast()}, {}, float32, {2}));
  EXPECT_EQ(simplified(g), "Cast Mul Add");
  EXPECT_EQ(g.graph.nodes[0].origin.kind, OriginKind::fused);
  EXPECT_EQ(g.graph.nodes[0].origin.ops, (std::vector<std::int32_t>{0, 2}));
}

// Simplifies op_type(x) * op_type(x). The nodes are operations 0, 1 and 2, whose scopes are in `scopes`.
std::string simplified_twins(const std::string& op_type, const std::vector<int>& scopes) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2});
  const auto a = g.node(op_type, {x}, {}, float32, {2}), b = g.node(op_type, {x}, {}, float32, {2});
  g.output(g.node("Mul", {a, b}, {}, float32, {2}));
  simplify::SimplifyOptions options;
  for (const int scope : scopes) options.scopes.emplace_back(scope);
  simplify::simplify(g.graph, options);
  return g.operators();
}

TEST(ShareNodes, KeepsNodesOfTwoModules) {
  EXPECT_EQ(simplified_twins("Sigmoid", {1, 2, 0}), "Sigmoid Sigmoid Mul");
  EXPECT_EQ(simplified_twins("Sigmoid", {}), "Sigmoid Sigmoid Mul");  // unknown scopes
}

TEST(ShareNodes, MergesRepeatedNodesOfOneModule) {
  EXPECT_EQ(simplified_twins("Sigmoid", {1, 1, 0}), "Sigmoid Mul");
  EXPECT_EQ(simplified_twins("RandomUniformLike", {1, 1, 0}), "RandomUniformLike RandomUniformLike Mul");
}

}  // namespace
// ---- operators of recent opsets

std::string simplified_at(GraphBuilder& g, int opset,
                          operators::OperatorForms forms = operators::OperatorForms::fused) {
  simplify::simplify(g.graph, {.opset = opset, .operators = forms});
  return g.operators();
}

GraphValueId gated(GraphBuilder& g, GraphValueId x, const Ints& sizes) {
  return g.node("Mul", {g.node("Sigmoid", {x}, {}, float32, sizes), x}, {}, float32, sizes);
}

TEST(Swish, ReplacesAProductWithASigmoidOfOneInput) {
  for (const auto& [opset, expected] : {std::pair{23, "Sigmoid Mul"}, std::pair{24, "Swish"}}) {
    GraphBuilder g;
    g.output(gated(g, g.input("x", float32, {-1, 3}), {-1, 3}));
    EXPECT_EQ(simplified_at(g, opset), expected);
    EXPECT_EQ(g.graph.nodes.back().origin.ops.size(), g.graph.nodes.size() == 1 ? 2U : 1U);
  }
}

TEST(Swish, IsNotUsedIfTheRuntimeLacksIt) {
  for (const auto forms : {operators::OperatorForms::runnable, operators::OperatorForms::plain}) {
    GraphBuilder g;
    g.output(gated(g, g.input("x", float32, {3}), {3}));
    EXPECT_EQ(simplified_at(g, 25, forms), "Sigmoid Mul");
  }
}

TEST(Swish, KeepsTheGateOfAnotherInput) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {3}), y = g.input("y", float32, {3});
  g.output(g.node("Mul", {y, g.node("Sigmoid", {x}, {}, float32, {3})}, {}, float32, {3}));
  EXPECT_EQ(simplified_at(g, 28), "Sigmoid Mul");
}

TEST(SwiGlu, AbsorbsAProductWithASwish) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {-1, 3}), y = g.input("y", float32, {-1, 3});
  g.output(g.node("Mul", {y, gated(g, x, {-1, 3})}, {}, float32, {-1, 3}));
  EXPECT_EQ(simplified_at(g, 28), "SwiGLU");
  EXPECT_EQ(g.graph.nodes[0].inputs, (std::vector<GraphValueId>{x, y}));
}

TEST(SwiGlu, DoesNotBroadcast) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2, 3}), y = g.input("y", float32, {3});
  g.output(g.node("Mul", {y, gated(g, x, {2, 3})}, {}, float32, {2, 3}));
  EXPECT_EQ(simplified_at(g, 28), "Swish Mul");
}

// Builds x / sqrt(mean(x^2) + eps) over `axes`, times `weight`.
void add_rms_norm(GraphBuilder& g, const Ints& axes, const std::vector<float>& weight) {
  const auto x = g.input("x", float32, {-1, 2, 3});
  const auto square = g.node("Mul", {x, x}, {}, float32, {-1, 2, 3});
  const auto mean = g.node("ReduceMean", {square, g.integers(axes)}, {}, float32, {-1, 2, 1});
  const auto root =
      g.node("Sqrt", {g.node("Add", {mean, g.number(1e-5F)}, {}, float32, {-1, 2, 1})}, {}, float32, {-1, 2, 1});
  const auto normal = g.node("Div", {x, root}, {}, float32, {-1, 2, 3});
  const auto size = static_cast<std::int64_t>(weight.size());
  g.output(g.node("Mul", {g.parameter("w", {size}, weight), normal}, {}, float32, {-1, 2, 3}));
}

TEST(RmsNormalization, IsDetectedWithItsWeight) {
  GraphBuilder g;
  add_rms_norm(g, {-1}, {1, 2, 3});
  EXPECT_EQ(simplified_at(g, 23), "RMSNormalization");
  EXPECT_EQ(floats(g.graph, g.graph.nodes[0].inputs[1]), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(g.graph.nodes[0].origin.ops.size(), 6U);
}

TEST(RmsNormalization, DoesNotAbsorbAWeightThatBroadcasts) {
  GraphBuilder g;
  add_rms_norm(g, {2}, {2});
  EXPECT_EQ(simplified_at(g, 23), "RMSNormalization Mul");
}

TEST(RmsNormalization, NeedsTheLastAxes) {
  GraphBuilder g;
  add_rms_norm(g, {1}, {1, 2, 3});
  EXPECT_EQ(simplified_at(g, 23), "Mul ReduceMean Add Sqrt Div Mul");
}

// Rotates x [batch, 2, 5, 4] by angles [1, 1, 5, 4], which are the concatenation of two halves [1, 1, 5, 2].
void add_rotation(GraphBuilder& g, bool equal_halves) {
  const Ints full{-1, 2, 5, 4}, half{-1, 2, 5, 2}, angles{1, 1, 5, 4};
  const auto x = g.input("x", float32, full), f = g.input("f", float32, {1, 1, 5, 2});
  const auto second_half = equal_halves ? f : g.input("f2", float32, {1, 1, 5, 2});
  const auto table = g.node("Concat", {f, second_half}, {{"axis", -1}}, float32, angles);
  const auto piece = [&](std::int64_t from, std::int64_t to) {
    return g.node("Slice", {x, g.integers({from}), g.integers({to}), g.integers({3})}, {}, float32, half);
  };
  const auto first = piece(0, 2), second = g.node("Neg", {piece(2, 4)}, {}, float32, half);
  const auto swapped = g.node("Concat", {second, first}, {{"axis", -1}}, float32, full);
  const auto by_cos = g.node("Mul", {x, g.node("Cos", {table}, {}, float32, angles)}, {}, float32, full);
  const auto by_sin = g.node("Mul", {swapped, g.node("Sin", {table}, {}, float32, angles)}, {}, float32, full);
  g.output(g.node("Add", {by_cos, by_sin}, {}, float32, full));
}

TEST(RotaryEmbedding, UsesHalfOfTheAngles) {
  GraphBuilder g;
  add_rotation(g, true);
  const std::string text = simplified_at(g, 23);
  EXPECT_NE(text.find("RotaryEmbedding"), std::string::npos) << text;
  for (const char* op : {"Neg", "Slice", "Mul", "Add"}) EXPECT_EQ(text.find(op), std::string::npos) << text;
}

TEST(RotaryEmbedding, IsNotUsedIfTheHalvesDiffer) {
  GraphBuilder g;
  add_rotation(g, false);
  const auto report = simplify::simplify(g.graph, {.opset = 23});
  EXPECT_EQ(g.operators().find("RotaryEmbedding"), std::string::npos);
  ASSERT_FALSE(report.refusals.empty());
  EXPECT_EQ(report.refusals[0].why, "the angles are not known to hold each number twice");
}

// Writes three new entries at start + steps into a cache of 8 entries.
std::string simplified_cache_write(const std::vector<std::int64_t>& steps, std::int64_t batch,
                                   std::int64_t starts = 1) {
  GraphBuilder g;
  const auto cache = g.input("cache", float32, {batch, 8, 4}), new_entries = g.input("now", float32, {batch, 3, 4});
  const auto start = g.input("start", int64, {starts});
  const auto positions = g.node("Add", {g.integers(steps), start}, {}, int64, {3});
  const auto column = g.node("Unsqueeze", {positions, g.integers({1})}, {}, int64, {3, 1});
  const auto index = g.node("Expand", {column, g.integers({2, 3, 4})}, {}, int64, {batch, 3, 4});
  g.output(g.node("ScatterElements", {cache, index, new_entries}, {{"axis", std::int64_t{1}}}, float32, {batch, 8, 4}));
  return simplified_at(g, 24);
}

TEST(TensorScatter, WritesConsecutiveEntries) {
  EXPECT_EQ(simplified_cache_write({0, 1, 2}, 2), "Expand TensorScatter");
  EXPECT_EQ(simplified_cache_write({0, 1, 2}, 1), "TensorScatter");
}

TEST(TensorScatter, DoesNotReplaceOtherIndices) {
  EXPECT_EQ(simplified_cache_write({0, 2, 4}, 2), "Add Unsqueeze Expand ScatterElements");
  EXPECT_EQ(simplified_cache_write({1, 2, 3}, 2), "Add Unsqueeze Expand ScatterElements");
  EXPECT_EQ(simplified_cache_write({0, 1, 2}, 2, 3),
            "Add Unsqueeze Expand ScatterElements");  // each entry has a separate start
}

// Builds attention in which keys and values are concatenations of a past and a new part.
GraphValueId attention(GraphBuilder& g, std::vector<graph::Attribute> attributes, std::int64_t past_of_values = 4) {
  const Ints query_sizes{1, 2, 3, 8}, key_sizes{1, 2, 7, 8};
  const auto q = g.input("q", float32, query_sizes);
  const auto concat_past = [&](const std::string& name, std::int64_t past) {
    const std::vector<GraphValueId> parts{g.input("past_" + name, float32, {1, 2, past, 8}),
                                          g.input(name, float32, {1, 2, 7 - past, 8})};
    return g.node("Concat", parts, {{"axis", 2}}, float32, key_sizes);
  };
  const auto k = concat_past("k", 4), v = concat_past("v", past_of_values);
  g.output(g.node("Attention", {q, k, v}, std::move(attributes), float32, query_sizes));
  g.output(k, "present_k");
  return v;
}

TEST(AttentionInputs, AbsorbAPast) {
  GraphBuilder g;
  attention(g, {});
  EXPECT_EQ(simplified_at(g, 23), "Attention");
  const graph::GraphNode& node = g.graph.nodes[0];
  ASSERT_EQ(node.inputs.size(), 6U);
  ASSERT_EQ(node.outputs.size(), 3U);
  EXPECT_EQ(g.graph.outputs, (std::vector<GraphValueId>{node.outputs[0], node.outputs[1]}));
  EXPECT_EQ(g.graph.values[node.outputs[1]].name, "present_k");
}

TEST(AttentionInputs, DoNotAbsorbAPastUnderACausalMask) {
  GraphBuilder g;
  attention(g, {{"is_causal", std::int64_t{1}}});
  EXPECT_EQ(simplified_at(g, 23), "Concat Concat Attention");
}

TEST(AttentionInputs, DoNotAbsorbPastsOfUnequalLength) {
  GraphBuilder g;
  attention(g, {}, 2);
  EXPECT_EQ(simplified_at(g, 23), "Concat Concat Attention");
}

TEST(AttentionInputs, DoNotAbsorbKeysWithOtherReaders) {
  GraphBuilder g;
  const auto v = attention(g, {});
  g.output(g.node("Relu", {v}, {}, float32, {1, 2, 7, 8}), "z");
  EXPECT_EQ(simplified_at(g, 23).find("Concat Concat Attention"), 0U) << g.operators();
}

}  // namespace whence
