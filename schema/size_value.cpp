// Computes the value of a size in a run.
#include <algorithm>
#include <cmath>
#include <variant>

#include "schema/parse_number.h"
#include "schema/size.h"

namespace whence {

namespace {

using Kind = SizeAtom::Kind;

// torch.export computes some sizes in floating point: TruncToInt(0.5*ToFloat(s0)).
using Number = std::variant<std::int64_t, double>;

double real(const Number& number) {
  return std::visit([](auto each) { return static_cast<double>(each); }, number);
}

std::optional<Number> to_integer(double number) {
  constexpr double limit = 9.0e18;
  if (!(std::abs(number) < limit)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::optional<Number> number_of(const Size& size, const SymbolNumbers& numbers);

std::optional<Number> call_value(const std::string& name, const std::vector<Number>& operands) {
  if (operands.empty()) {
    const auto literal = parse_number<double>(name);
    return literal ? std::optional<Number>(*literal) : std::nullopt;
  }
  const double first = real(operands[0]);
  if (operands.size() == 1) {
    if (name == "ToFloat") return first;
    if (name == "TruncToInt") return to_integer(std::trunc(first));
    if (name == "FloorToInt") return to_integer(std::floor(first));
    if (name == "CeilToInt") return to_integer(std::ceil(first));
    if (name == "RoundToInt") return to_integer(std::nearbyint(first));
    return std::nullopt;
  }
  if (operands.size() != 2) return std::nullopt;
  const double second = real(operands[1]);
  if (name == "IntTrueDiv" || name == "FloatTrueDiv")
    return second == 0 ? std::nullopt : std::optional<Number>(first / second);
  if (name == "FloatPow") return std::pow(first, second);
  return std::nullopt;
}

std::optional<Number> number_of(const SizeAtom& atom, const SymbolNumbers& numbers) {
  if (atom.kind == Kind::symbol) {
    const auto number = numbers(atom.symbol);
    return number ? std::optional<Number>(*number) : std::nullopt;
  }
  std::vector<Number> operands;
  for (const Size& operand : atom.operands) {
    const auto number = number_of(operand, numbers);
    if (!number) return std::nullopt;
    operands.push_back(*number);
  }
  if (atom.kind == Kind::call) return call_value(atom.name, operands);
  const auto less = [](const Number& a, const Number& b) {
    return a.index() == 0 && b.index() == 0 ? std::get<0>(a) < std::get<0>(b) : real(a) < real(b);
  };
  if (atom.kind == Kind::minimum) return *std::ranges::min_element(operands, less);
  if (atom.kind == Kind::maximum) return *std::ranges::max_element(operands, less);
  const auto *dividend = std::get_if<std::int64_t>(&operands[0]), *divisor = std::get_if<std::int64_t>(&operands[1]);
  if (dividend != nullptr && divisor != nullptr) {
    const auto quotient = floor_div(*dividend, *divisor).integer();
    return quotient ? std::optional<Number>(*quotient) : std::nullopt;
  }
  return real(operands[1]) == 0 ? std::nullopt
                                : std::optional<Number>(std::floor(real(operands[0]) / real(operands[1])));
}

std::optional<Number> product_of(const Number& a, const Number& b) {
  if (a.index() == 1 || b.index() == 1) return real(a) * real(b);
  std::int64_t product = 0;
  if (__builtin_mul_overflow(std::get<0>(a), std::get<0>(b), &product)) return std::nullopt;
  return product;
}

std::optional<Number> sum_of(const Number& a, const Number& b) {
  if (a.index() == 1 || b.index() == 1) return real(a) + real(b);
  std::int64_t sum = 0;
  if (__builtin_add_overflow(std::get<0>(a), std::get<0>(b), &sum)) return std::nullopt;
  return sum;
}

std::optional<Number> number_of(const Size& size, const SymbolNumbers& numbers) {
  if (!size.is_known()) return std::nullopt;
  std::optional<Number> sum = size.number();
  for (const Size::Term& term : size.terms()) {
    std::optional<Number> product = term.coefficient;
    for (const auto& factor : term.factors) {
      const auto number = number_of(*factor, numbers);
      product = number ? product_of(*product, *number) : std::nullopt;
      if (!product) return std::nullopt;
    }
    sum = sum_of(*sum, *product);
    if (!sum) return std::nullopt;
  }
  return sum;
}

}  // namespace

std::optional<std::int64_t> value_of(const Size& size, const SymbolNumbers& numbers) {
  const auto number = number_of(size, numbers);
  if (!number) return std::nullopt;
  if (const auto* integer = std::get_if<std::int64_t>(&*number)) return *integer;
  const double found = std::get<double>(*number);
  const auto rounded = to_integer(found);
  return rounded && real(*rounded) == found ? std::optional(std::get<std::int64_t>(*rounded)) : std::nullopt;
}

}  // namespace whence
