// Exports operators on constants, which the export folds, and compares the results with numbers computed by hand.
// tests/ops compares every operator with PyTorch. These cases take a millisecond each and cover the converted forms.
#include <gtest/gtest.h>

#include "annotator/exporter/export.h"
#include "annotator/program/tensor_values.h"
#include "annotator/simplify/evaluate/evaluate.h"
#include "tests/annotator/graph_builder.h"
#include "tests/annotator/program_builder.h"

namespace whence {
namespace {

using Numbers = std::vector<double>;
using Sizes = std::vector<std::int64_t>;

TensorData constant_data(DType dtype, const Sizes& shape, const Numbers& numbers) {
  TensorData wide{DType::float64, shape, Bytes::copy_of(numbers.data(), numbers.size() * sizeof(double))};
  return program::cast_tensor(wide, dtype).value();
}

// Exports one operation and returns the elements of its result.
class Values {
 public:
  Argument tensor(const Sizes& shape, const Numbers& numbers, DType dtype = DType::float32) {
    return v(builder_.parameter("p" + std::to_string(builder_.program.parameters.size()),
                                constant_data(dtype, shape, numbers)));
  }

  Numbers operator()(const std::string& key, std::vector<NamedArgument> arguments, std::initializer_list<int> sizes,
                     DType dtype = DType::float32) {
    builder_.output(builder_.op(key, std::move(arguments), whence::tensor(dtype, sizes)), "y");
    exporter::ExportOptions options;
    const Result<graph::Graph> graph = exporter::export_program(builder_.program, options);
    if (!graph) throw Error(graph.diagnostics());
    // The export does not fold the node of the output.
    if (graph->nodes.size() != 1) throw std::runtime_error(key + " was not folded");
    const graph::GraphNode& last = graph->nodes.front();
    simplify::Constants constants;
    for (const graph::GraphValueId input : last.inputs) constants.push_back(graph->constant(input));
    std::optional<TensorData> result;
    if (last.op_type == "Identity") result = *constants.at(0);
    if (simplify::can_evaluate(last)) result = simplify::evaluate(last, constants, 4096);
    if (!result) throw std::runtime_error(key + ": " + last.op_type + " was not evaluated");
    EXPECT_EQ(result->dtype, dtype) << key;
    EXPECT_EQ(result->shape, Sizes(sizes.begin(), sizes.end())) << key;
    const auto elements = program::Elements::of(*result).value();
    Numbers numbers;
    for (std::size_t i = 0; i < elements.size(); ++i) numbers.push_back(elements.number(i));
    return numbers;
  }

 private:
  ProgramBuilder builder_;
};

void expect_near(const Numbers& numbers, const Numbers& expected) {
  ASSERT_EQ(numbers.size(), expected.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_NEAR(numbers[i], expected[i], 1e-5) << i;
}

Argument yes() { return Argument{true}; }
Argument no() { return Argument{false}; }
Argument integer_list(const Sizes& numbers) {
  std::vector<Argument> elements;
  for (const std::int64_t number : numbers) elements.push_back(n(number));
  return list(std::move(elements));
}

TEST(ConvertValues, OperandsArePromoted) {
  Values a, b, c;
  expect_near(
      a("aten::add.Tensor",
        {{"self", a.tensor({2}, {1, 2}, DType::int64)}, {"other", a.tensor({2}, {0.5, 0.25})}, {"alpha", n(1)}}, {2}),
      {1.5, 2.25});
  expect_near(b("aten::add.Tensor",
                {{"self", b.tensor({2}, {1, 2})}, {"other", b.tensor({2}, {10, 20})}, {"alpha", n(3)}}, {2}),
              {31, 62});
  expect_near(c("aten::mul.Tensor", {{"self", c.tensor({2, 1}, {2, 3})}, {"other", c.tensor({2}, {5, 7})}}, {2, 2}),
              {10, 14, 15, 21});
}

TEST(ConvertValues, DividesNegativeNumbers) {
  const auto divide = [](const char* key, double x, double divisor) {
    Values a;
    return a(key, {{"self", a.tensor({1}, {x}, DType::int64)}, {"other", a.tensor({1}, {divisor}, DType::int64)}}, {1},
             DType::int64)
        .front();
  };
  EXPECT_EQ(divide("aten::floor_divide", -7, 2), -4);
  EXPECT_EQ(divide("aten::floor_divide", 7, -2), -4);
  EXPECT_EQ(divide("aten::remainder.Tensor", -7, 3), 2);  // has the sign of the divisor
  EXPECT_EQ(divide("aten::remainder.Tensor", 7, -3), -2);
}

TEST(ConvertValues, ComputesRangesUpAndDown) {
  const auto range = [](const Argument& start, const Argument& end, const Argument& step, int count, DType dtype) {
    Values a;
    return a("aten::arange.start_step", {{"start", start}, {"end", end}, {"step", step}, {"dtype", Argument{dtype}}},
             {count}, dtype);
  };
  EXPECT_EQ(range(n(5), n(-1), n(-2), 3, DType::int64), (Numbers{5, 3, 1}));
  EXPECT_EQ(range(n(0), n(5), n(2), 3, DType::int64), (Numbers{0, 2, 4}));
  expect_near(range(Argument{1.0}, Argument{0.0}, Argument{-0.25}, 4, DType::float32), {1, 0.75, 0.5, 0.25});
  Values a, b;
  expect_near(
      a("aten::linspace", {{"start", n(0)}, {"end", n(1)}, {"steps", n(5)}, {"dtype", Argument{DType::float32}}}, {5}),
      {0, 0.25, 0.5, 0.75, 1});
  expect_near(
      b("aten::linspace", {{"start", n(3)}, {"end", n(1)}, {"steps", n(1)}, {"dtype", Argument{DType::float32}}}, {1}),
      {3});
}

// Counting up needs only a Range node. Counting down needs another form in ONNX Runtime.
TEST(ConvertValues, ARangeToADynamicEndCountsUp) {
  const auto operators = [](std::int64_t step) {
    ProgramBuilder p;
    const ValueId x = p.input("x", f32({named(4, p.symbol("n", 4))}));
    const ValueId end = p.op("aten::size.int", {{"self", v(x)}, {"dim", n(0)}}, integer());
    p.output(p.op("aten::arange.start_step",
                  {{"start", step > 0 ? n(0) : v(end)},
                   {"end", step > 0 ? v(end) : n(0)},
                   {"step", n(step)},
                   {"dtype", Argument{DType::int64}}},
                  whence::tensor(DType::int64, {named(4, SymbolId(0))})));
    const Result<graph::Graph> graph = exporter::export_program(p.program, {});
    return op_types(*graph);
  };
  EXPECT_EQ(std::ranges::count(operators(1), "Neg"), 0);
  EXPECT_EQ(std::ranges::count(operators(1), "Range"), 1);
  EXPECT_GT(std::ranges::count(operators(-1), "Neg"), 0);
}

TEST(ConvertValues, ComputesDifferencesAlongAnAxis) {
  const auto diff = [](int order, int count) {
    Values a;
    return a("aten::diff", {{"self", a.tensor({4}, {1, 4, 9, 16})}, {"n", n(order)}, {"dim", n(-1)}}, {count});
  };
  EXPECT_EQ(diff(0, 4), (Numbers{1, 4, 9, 16}));
  EXPECT_EQ(diff(1, 3), (Numbers{3, 5, 7}));
  EXPECT_EQ(diff(2, 2), (Numbers{2, 2}));
  Values flags;
  EXPECT_EQ(flags("aten::diff", {{"self", flags.tensor({3}, {1, 1, 0}, DType::boolean)}, {"n", n(1)}, {"dim", n(0)}},
                  {2}, DType::boolean),
            (Numbers{0, 1}));
}

TEST(ConvertValues, ComputesCovarianceWithAndWithoutCorrection) {
  const auto cov = [](int correction) {
    Values a;
    return a("aten::cov", {{"self", a.tensor({2, 3}, {1, 2, 3, 2, 4, 7})}, {"correction", n(correction)}}, {2, 2});
  };
  expect_near(cov(1), {1, 2.5, 2.5, 19.0 / 3});
  expect_near(cov(0), {2.0 / 3, 5.0 / 3, 5.0 / 3, 38.0 / 9});
}

TEST(ConvertValues, TestsMembershipInASet) {
  const auto isin = [](bool invert) {
    Values a;
    return a("aten::isin.Tensor_Tensor",
             {{"elements", a.tensor({3}, {1, 2, 3}, DType::int64)},
              {"test_elements", a.tensor({2}, {2, 5}, DType::int64)},
              {"assume_unique", no()},
              {"invert", Argument{invert}}},
             {3}, DType::boolean);
  };
  EXPECT_EQ(isin(false), (Numbers{0, 1, 0}));
  EXPECT_EQ(isin(true), (Numbers{1, 0, 1}));
}

TEST(ConvertValues, GathersElementsAlongAnAxis) {
  const auto take = [](const Sizes& x, const Numbers& numbers, const Sizes& index_sizes, const Numbers& indices,
                       std::initializer_list<int> sizes) {
    Values a;
    return a("aten::take_along_dim",
             {{"self", a.tensor(x, numbers)}, {"indices", a.tensor(index_sizes, indices, DType::int64)}, {"dim", n(1)}},
             sizes);
  };
  EXPECT_EQ(take({2, 2}, {1, 2, 3, 4}, {2, 1}, {1, 0}, {2, 1}), (Numbers{2, 3}));
  EXPECT_EQ(take({2, 2}, {1, 2, 3, 4}, {1, 2}, {1, 0}, {2, 2}),
            (Numbers{2, 1, 4, 3}));  // the indices apply to both rows
  EXPECT_EQ(take({1, 3}, {1, 2, 3}, {2, 2}, {2, 0, 1, 1}, {2, 2}), (Numbers{3, 1, 2, 2}));
}

TEST(ConvertValues, PermutesAxes) {
  const auto permutation = [](const Sizes& source, const Sizes& destination, std::initializer_list<int> sizes) {
    ProgramBuilder p;
    const ValueId x = p.input("x", f32({2, 3, 4}));
    p.output(p.op("aten::movedim.intlist",
                  {{"self", v(x)}, {"source", integer_list(source)}, {"destination", integer_list(destination)}},
                  f32(sizes)));
    const Result<graph::Graph> graph = exporter::export_program(p.program, {});
    return std::get<Sizes>(graph->nodes.at(0).find("perm")->value);
  };
  EXPECT_EQ(permutation({0}, {2}, {3, 4, 2}), (Sizes{1, 2, 0}));
  EXPECT_EQ(permutation({0, 1}, {-1, 0}, {3, 4, 2}), (Sizes{1, 2, 0}));
  EXPECT_EQ(permutation({2}, {0}, {4, 2, 3}), (Sizes{2, 0, 1}));
  Values b, c, d;
  EXPECT_EQ(b("aten::movedim.int", {{"self", b.tensor({}, {7})}, {"source", n(0)}, {"destination", n(0)}}, {}),
            Numbers{7});
  EXPECT_EQ(c("aten::flip", {{"self", c.tensor({2, 2}, {1, 2, 3, 4})}, {"dims", integer_list({1})}}, {2, 2}),
            (Numbers{2, 1, 4, 3}));
  EXPECT_EQ(d("aten::roll",
              {{"self", d.tensor({3}, {1, 2, 3})}, {"shifts", integer_list({1})}, {"dims", integer_list({0})}}, {3}),
            (Numbers{3, 1, 2}));
}

TEST(ConvertValues, TrainingDropoutIsRefused) {
  const auto dropout = [](const char* key, double p, const Argument& train) {
    Values a;
    return a(key, {{"input", a.tensor({2}, {1, 2})}, {"p", Argument{p}}, {"train", train}}, {2});
  };
  EXPECT_EQ(dropout("aten::feature_dropout", 0.5, no()), (Numbers{1, 2}));
  EXPECT_EQ(dropout("aten::feature_dropout", 0, yes()), (Numbers{1, 2}));
  EXPECT_THROW(dropout("aten::feature_dropout", 0.5, yes()), Error);
}

TEST(ConvertValues, OperandsOfUnknownDtypeAreRefused) {
  ProgramBuilder p;
  const ValueId x = p.input("x", whence::tensor(DType::undefined, {2}));
  p.output(p.op("aten::eq.Tensor", {{"self", v(x)}, {"other", v(x)}}, whence::tensor(DType::boolean, {2})));
  const auto graph = exporter::export_program(p.program, {});
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.diagnostics().front().code, Code::converter_refused);
}

}  // namespace
}  // namespace whence
