// Evaluates nodes on constants: empty results, results above the limit, and errors that a runtime must report.
#include <gtest/gtest.h>

#include "annotator/program/tensor_values.h"
#include "annotator/simplify/evaluate/evaluate.h"

namespace whence {
namespace {

TensorData number(std::int64_t value) { return program::integer_scalar(value, DType::int64); }

std::optional<TensorData> evaluate_node(const std::string& op_type, const std::vector<TensorData>& inputs,
                                        std::uint64_t max_bytes = 1024) {
  graph::GraphNode node;
  node.op_type = op_type;
  node.inputs.resize(inputs.size());
  node.outputs = {graph::GraphValueId(0)};
  simplify::Constants constants;
  for (const TensorData& input : inputs) constants.push_back(&input);
  EXPECT_TRUE(simplify::can_evaluate(node));
  return simplify::evaluate(node, constants, max_bytes);
}

std::vector<std::int64_t> integers_in(const TensorData& data) {
  std::vector<std::int64_t> integers;
  const auto elements = program::Elements::of(data).value();
  for (std::size_t i = 0; i < elements.size(); ++i) integers.push_back(elements.integer(i));
  return integers;
}

TEST(SimplifyEvaluate, ReturnsEmptyResults) {
  const auto range = evaluate_node("Range", {number(3), number(3), number(1)});
  ASSERT_TRUE(range);
  EXPECT_EQ(range->shape, std::vector<std::int64_t>{0});
  const auto tiled = evaluate_node("Tile", {program::integer_vector({1, 2}), program::integer_vector({0})});
  ASSERT_TRUE(tiled);
  EXPECT_EQ(tiled->shape, std::vector<std::int64_t>{0});
}

TEST(SimplifyEvaluate, DoesNotComputeLargeResults) {
  EXPECT_TRUE(evaluate_node("Range", {number(0), number(128), number(1)}));  // 1024 bytes
  EXPECT_FALSE(evaluate_node("Range", {number(0), number(129), number(1)}));
  EXPECT_FALSE(
      evaluate_node("Expand", {number(1), program::integer_vector({std::int64_t{1} << 40, std::int64_t{1} << 40})}));
}

TEST(SimplifyEvaluate, LeavesErrorsToTheRuntime) {
  EXPECT_FALSE(evaluate_node("Div", {number(1), number(0)}));
  EXPECT_FALSE(evaluate_node("Gather", {program::integer_vector({1, 2}), number(2)}));
  EXPECT_FALSE(evaluate_node("Range", {number(0), number(3), number(0)}));
  EXPECT_EQ(integers_in(evaluate_node("Gather", {program::integer_vector({1, 2}), number(-1)}).value()),
            std::vector<std::int64_t>{2});
}

TEST(SimplifyEvaluate, IntegersWrapAndDivideTowardsZero) {
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(integers_in(evaluate_node("Add", {number(largest), number(1)}).value()).front(),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(integers_in(evaluate_node("Div", {number(-7), number(2)}).value()).front(), -3);
  EXPECT_EQ(integers_in(evaluate_node("Mod", {number(-7), number(3)}).value()).front(), 2);
  EXPECT_EQ(integers_in(evaluate_node("ReduceSum", {program::integer_vector({1, 2, 4})}).value()),
            std::vector<std::int64_t>{7});
}

}  // namespace
}  // namespace whence
