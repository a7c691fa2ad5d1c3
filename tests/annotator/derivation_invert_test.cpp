// Tests inversion against numbers worked by hand, and against the evaluation of the same expressions.
#include <numeric>

#include <gtest/gtest.h>

#include "annotator/derivation/element_views.h"
#include "annotator/derivation/invert.h"
#include "whence/diagnostics.h"

namespace whence::derivation {
namespace {

using Dims = std::vector<std::int64_t>;
using Floats = std::vector<float>;

Expression parameter(const char* name, Dims dims) {
  return {ParameterStep{.name = name, .dtype = DType::float32, .dims = std::move(dims)}};
}

TensorData tensor(const Floats& numbers, Dims dims) {
  return {DType::float32, std::move(dims), Bytes::copy_of(numbers.data(), numbers.size() * sizeof(float))};
}

TensorData counted(Dims dims) {
  Floats numbers(
      static_cast<std::size_t>(std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies())));
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  return tensor(numbers, std::move(dims));
}

Floats numbers_of(const ParameterPiece& piece) { return {floats_of(piece.data).begin(), floats_of(piece.data).end()}; }

// Two matrices were joined by rows and the result was transposed: columns 0 and 1 are a, column 2 is b.
TEST(Invert, TransposedAndJoined) {
  const Expression joined{ConcatenateStep{}, {parameter("a", {2, 2}), parameter("b", {1, 2})}};
  const Expression expression{TransposeStep{{1, 0}}, {joined}};
  EXPECT_EQ(dims_of(expression), (Dims{2, 3}));
  const auto pieces = inverted(expression, counted({2, 3}));
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].parameter->name, "a");
  EXPECT_EQ(numbers_of(pieces[0]), (Floats{1, 4, 2, 5}));
  EXPECT_EQ(numbers_of(pieces[1]), (Floats{3, 6}));
}

TEST(Invert, TransposedWithThreeAxes) {
  const Expression expression{TransposeStep{{2, 0, 1}}, {parameter("a", {2, 3, 4})}};
  EXPECT_EQ(dims_of(expression), (Dims{4, 2, 3}));
  const auto pieces = inverted(expression, counted({4, 2, 3}));
  EXPECT_EQ(pieces[0].data.shape, (Dims{2, 3, 4}));
  // Element [0, 0, k] of the parameter is element [k, 0, 0] of the tensor.
  const Floats found = numbers_of(pieces[0]);
  EXPECT_EQ((Floats{found.begin(), found.begin() + 4}), (Floats{1, 7, 13, 19}));
}

TEST(Invert, PickedRowsReturnToTheirPlaces) {
  const Expression expression{PickStep{{{3, 1, 1}, {0, 2, 2}}}, {parameter("a", {4, 2})}};
  EXPECT_FALSE(holds_all(expression));
  EXPECT_EQ(dims_of(expression), (Dims{3, 2}));
  const auto pieces = inverted(expression, counted({3, 2}));
  EXPECT_EQ(numbers_of(pieces[0]), (Floats{3, 4, 0, 0, 5, 6, 1, 2}));
}

// The convolution takes the numbers; scale 1 and variance 1 - epsilon leave them as they are.
TEST(Invert, FoldedNormsBecomeNeutral) {
  const auto norm = [](const char* name) { return parameter(name, {2}); };
  const FoldStep weight{.epsilon = 0.25, .axis = 0};
  const Expression expression{weight,
                              {parameter("w", {2, 1}), norm("scale"), norm("shift"), norm("mean"), norm("var")}};
  EXPECT_TRUE(has_fold(expression));
  const auto pieces = inverted(expression, counted({2, 1}));
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(numbers_of(pieces[0]), (Floats{1, 2}));
  EXPECT_FALSE(pieces[0].is_neutral);
  EXPECT_EQ(pieces[1].parameter->name, "scale");
  EXPECT_EQ(numbers_of(pieces[1]), (Floats{1, 1}));
  EXPECT_EQ(pieces[2].parameter->name, "var");
  EXPECT_EQ(numbers_of(pieces[2]), (Floats{0.75, 0.75}));
  EXPECT_TRUE(pieces[2].is_neutral);
}

TEST(Invert, AFoldedBiasWithoutAPlaceBecomesAMean) {
  const FoldStep bias{.is_bias = true, .has_bias = false, .is_affine = false};
  const Expression expression{bias, {parameter("mean", {2}), parameter("var", {2})}};
  const auto pieces = inverted(expression, counted({2}));
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].parameter->name, "mean");
  EXPECT_EQ(numbers_of(pieces[0]), (Floats{-1, -2}));
}

TEST(Invert, ExpressionsThatDoNotFitAreRefused) {
  const Expression a = parameter("a", {2, 2});
  EXPECT_THROW(inverted(a, counted({4})), Error);
  EXPECT_THROW(inverted({ReshapeStep{{3}}, {a}}, counted({3})), Error);
  EXPECT_THROW(inverted({TransposeStep{{0, 0}}, {a}}, counted({2, 2})), Error);
  EXPECT_THROW(inverted({PickStep{{{1, 2, 1}}}, {a}}, counted({2, 2})), Error);
  EXPECT_THROW(inverted({ConcatenateStep{}, {a, a}}, counted({3, 2})), Error);
  EXPECT_THROW(inverted({TransposeStep{{1, 0}}, {}}, counted({2, 2})), Error);
}

TEST(Invert, ComputedElementsHaveAnObstacle) {
  EXPECT_EQ(obstacle(parameter("a", {2})), "");
  EXPECT_NE(obstacle({ReshapeStep{{2}}, {{KeptStep{"a"}}}}), "");
}

}  // namespace
}  // namespace whence::derivation
