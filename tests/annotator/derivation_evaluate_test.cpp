// Tests expressions against the same steps in another order.
#include <cmath>

#include <gtest/gtest.h>

#include "annotator/derivation/element_views.h"
#include "annotator/derivation/evaluate.h"

namespace whence::derivation {
namespace {

// A weight whose elements all differ, with sides that are no multiples of 8.
TensorData weight(std::int64_t rows, std::int64_t columns) {
  std::vector<float> numbers(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(i)) * static_cast<float>(i);
  return of_floats(numbers, {rows, columns});
}

TensorData transposed_by_hand(const TensorData& data) {
  const std::int64_t rows = data.shape[0], columns = data.shape[1];
  std::vector<float> turned(floats_of(data).size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c)
      turned[static_cast<std::size_t>(c * rows + r)] = floats_of(data)[static_cast<std::size_t>(r * columns + c)];
  }
  return of_floats(turned, {columns, rows});
}

class QuantisedTranspose : public testing::TestWithParam<std::tuple<std::int64_t, Groups>> {};

TEST_P(QuantisedTranspose, IsTheSameAsQuantisingTheTransposedWeight) {
  const auto [columns, groups] = GetParam();
  const TensorData stored = weight(37, columns);
  const Weights weights({{"stored", {}, stored}, {"turned", {}, transposed_by_hand(stored)}});
  Scheme scheme;
  scheme.groups = groups;
  const auto parameter = [&](const std::string& name) {
    return Expression{ParameterStep{.name = name, .dtype = DType::float32, .dims = weights.find(name)->shape}};
  };
  const Expression turn{TransposeStep{{1, 0}}, {parameter("stored")}};
  for (const auto part : {QuantiseStep::Part::integers, QuantiseStep::Part::scales, QuantiseStep::Part::zero_points}) {
    const QuantiseStep step{scheme, part};
    EXPECT_EQ(text_of(evaluate({step, {turn}}, {weights, {}})),
              text_of(evaluate({step, {parameter("turned")}}, {weights, {}})));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, QuantisedTranspose,
                         testing::Combine(testing::Values(1, 8, 41, 130),
                                          testing::Values(Groups{}, Groups{Groups::Kind::channel, 0, 0},
                                                          Groups{Groups::Kind::channel, 1, 0})));

TEST(Evaluate, ATransposeOfOtherAxesIsRefused) {
  const Weights weights({{"stored", {}, weight(3, 4)}});
  const Expression parameter{ParameterStep{.name = "stored", .dtype = DType::float32, .dims = {3, 4}}};
  const Expression turn{TransposeStep{{1, 1}}, {parameter}};
  EXPECT_THROW(evaluate({QuantiseStep{}, {turn}}, {weights, {}}), Error);
  EXPECT_THROW(evaluate({QuantiseStep{{}, QuantiseStep::Part::scales}, {turn}}, {weights, {}}), Error);
}

}  // namespace
}  // namespace whence::derivation
