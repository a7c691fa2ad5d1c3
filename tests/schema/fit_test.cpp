// Derives sizes from their values in a few runs, and computes sizes with the caller's operations.
#include "schema/fit.h"

#include <gtest/gtest.h>

#include "schema/size_steps.h"

namespace whence::fit_test {
namespace {

const Size n = Size::symbol(SymbolId(0)), m = Size::symbol(SymbolId(1));

// The values of n and m in four runs.
const std::vector<SeenSize> symbol_values{{n, {5, 7, 1050, 1}}, {m, {3, 8, 4, 2}}};

std::vector<std::int64_t> numbers(const auto& formula) {
  std::vector<std::int64_t> results;
  for (std::size_t run = 0; run < 4; ++run)
    results.push_back(formula(symbol_values[0].numbers[run], symbol_values[1].numbers[run]));
  return results;
}

using Length = std::int64_t;  // the value of a size in one run

TEST(Fit, FindsTheFormulaOfTheNumbers) {
  EXPECT_EQ(fit_size(numbers([](Length a, Length) { return a; }), symbol_values, 1), n);
  EXPECT_EQ(fit_size(numbers([](Length, Length b) { return 3 * b; }), symbol_values, 1), 3 * m);
  EXPECT_EQ(fit_size(numbers([](Length a, Length) { return 2 * a - 1; }), symbol_values, 1), 2 * n - 1);
  EXPECT_EQ(fit_size(numbers([](Length a, Length) { return -a; }), symbol_values, 1), -1 * n);
  EXPECT_EQ(fit_size(numbers([](Length a, Length b) { return 2 * a * b; }), symbol_values, 1), 2 * n * m);
  EXPECT_EQ(fit_size(numbers([](Length a, Length) { return (a + 6) / 7; }), symbol_values, 64), floor_div(n + 6, 7));
}

TEST(Fit, RefusesNumbersWithoutAFormula) {
  EXPECT_EQ(fit_size(numbers([](Length a, Length) { return a % 4; }), symbol_values, 64), std::nullopt);
  EXPECT_EQ(fit_size(numbers([](Length a, Length) { return (a + 6) / 7; }), symbol_values, 6), std::nullopt);
  EXPECT_EQ(fit_size(numbers([](Length a, Length) { return a == 5 ? 6 : a; }), symbol_values, 64), std::nullopt);
}

// With only two distinct sizes, 2 and 5, every result fits a linear formula.
TEST(Fit, NeedsThreeSizesForALinearFormula) {
  const std::vector<SeenSize> sizes{{n, {2, 5, 5}}};
  EXPECT_EQ(fit_size({4, 25, 25}, sizes, 1), n * n);
  EXPECT_EQ(fit_size({3, 14, 14}, sizes, 1), std::nullopt);
  EXPECT_EQ(fit_size({3, 6, 6}, sizes, 1), n + 1);
}

// For the sizes 2, 5, 14 and 1, n // 4 + 1 and (n + 3) // 4 are equal; for 4, they differ.
TEST(Fit, AcceptsAQuotientOnlyIfNoOtherFits) {
  EXPECT_EQ(fit_size({1, 2, 4, 1}, {{n, {2, 5, 14, 1}}}, 64), std::nullopt);
  EXPECT_EQ(fit_size({1, 2, 4, 1, 2, 1}, {{n, {2, 5, 14, 1, 4, 3}}}, 4), floor_div(n, 4) + 1);
  EXPECT_EQ(fit_size({1, 2, 4, 1, 1, 1}, {{n, {2, 5, 14, 1, 4, 3}}}, 4), floor_div(n + 3, 4));
}

TEST(SizeSteps, ComputeTheSize) {
  const auto length = [](SymbolId id) { return id == SymbolId(0) ? std::optional<Length>(11) : std::nullopt; };
  const SizeSteps<Length> steps{length, [](Length number) { return number; },
                                [](const std::string& target, const Length& a, const Length& b) {
                                  if (target == "aten::floordiv") return floor_quotient(a, b);
                                  if (target == "prim::min") return std::min(a, b);
                                  if (target == "prim::max") return std::max(a, b);
                                  return target == "aten::add" ? a + b : a * b;
                                }};
  EXPECT_EQ(steps.number(7), 7);
  EXPECT_EQ(steps.number(2 * n * n - 3 * n + 1), 2 * 121 - 33 + 1);
  EXPECT_EQ(steps.number(minimum({floor_div(n, 4), 5}) + maximum({n - 20, 0})), 2);
  EXPECT_EQ(steps.number(n + m), std::nullopt);
  EXPECT_EQ(steps.number(Size::call("f", {n})), std::nullopt);
}

}  // namespace
}  // namespace whence::fit_test
