#include "schema/size.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <variant>

#include "schema/parse_number.h"

namespace whence {

namespace {

using Kind = SizeAtom::Kind;
using Factors = Size::Factors;
using Term = Size::Term;
using Terms = Size::Terms;

// Beyond these a size is unknown: an archive of others may hold any expression.
constexpr std::size_t most_terms = 64, most_factors = 16;
constexpr int most_depth = 40;

const std::shared_ptr<const Terms>& unknown_terms() {
  static const auto terms = std::make_shared<const Terms>();
  return terms;
}

std::strong_ordering order_of(const Factors& a, const Factors& b) {
  return std::lexicographical_compare_three_way(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const auto& x, const auto& y) { return x == y ? std::strong_ordering::equal : *x <=> *y; });
}

bool precedes(const Factors& a, const Factors& b) { return order_of(a, b) < 0; }

bool atom_precedes(const std::shared_ptr<const SizeAtom>& a, const std::shared_ptr<const SizeAtom>& b) {
  return a != b && *a < *b;
}

int depth_of(const Size& size) {
  int deepest = 0;
  for (const Term& term : size.terms()) {
    for (const auto& factor : term.factors) {
      int inner = 1;
      for (const Size& operand : factor->operands) inner = std::max(inner, 1 + depth_of(operand));
      deepest = std::max(deepest, inner);
    }
  }
  return deepest;
}

Size of_atom(SizeAtom atom) {
  for (const Size& operand : atom.operands) {
    if (!operand.is_known() || depth_of(operand) >= most_depth) return Size::unknown();
  }
  return Size::sum(0, {{1, {std::make_shared<const SizeAtom>(std::move(atom))}}});
}

// Adds up terms of equal factors; unknown where a number does not fit.
Size collected(std::int64_t number, Terms terms) {
  std::ranges::sort(terms, precedes, &Term::factors);
  Terms sum;
  for (Term& term : terms) {
    if (!sum.empty() && order_of(sum.back().factors, term.factors) == 0) {
      if (__builtin_add_overflow(sum.back().coefficient, term.coefficient, &sum.back().coefficient)) {
        return Size::unknown();
      }
    } else {
      if (!sum.empty() && sum.back().coefficient == 0) sum.pop_back();
      sum.push_back(std::move(term));
    }
  }
  if (!sum.empty() && sum.back().coefficient == 0) sum.pop_back();
  return sum.size() > most_terms ? Size::unknown() : Size::sum(number, std::move(sum));
}

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// a - b*floor(a/b), for b > 0.
std::int64_t remainder_of(std::int64_t a, std::int64_t b) {
  const std::int64_t rest = a % b;
  return rest < 0 ? rest + b : rest;
}

bool overflows(std::int64_t a, std::int64_t b) {
  return b == 0 || (a == std::numeric_limits<std::int64_t>::min() && b == -1);
}

std::int64_t magnitude(std::int64_t number) {
  return number == std::numeric_limits<std::int64_t>::min() ? std::numeric_limits<std::int64_t>::max()
                                                            : std::abs(number);
}

// The greatest integer that divides all coefficients; 0 if there are none.
std::int64_t content_of(const Size& size) {
  std::int64_t divisor = 0;
  for (const Term& term : size.terms()) divisor = std::gcd(divisor, magnitude(term.coefficient));
  return divisor;
}

// size / divisor, for a divisor of every coefficient and of the number.
Size divided(const Size& size, std::int64_t divisor) {
  Terms terms = size.terms();
  for (Term& term : terms) term.coefficient /= divisor;
  return Size::sum(size.number() / divisor, std::move(terms));
}

// The term without the factors of the divisor; nullopt if it does not have them all, or the coefficient is no multiple.
std::optional<Term> quotient(const Term& term, const Term& divisor) {
  if (overflows(term.coefficient, divisor.coefficient) || term.coefficient % divisor.coefficient != 0) {
    return std::nullopt;
  }
  if (!std::ranges::includes(term.factors, divisor.factors, atom_precedes)) return std::nullopt;
  Term result{term.coefficient / divisor.coefficient, {}};
  std::ranges::set_difference(term.factors, divisor.factors, std::back_inserter(result.factors), atom_precedes);
  return result;
}

Size size_of(const Term& term) { return term.factors.empty() ? Size(term.coefficient) : Size::sum(0, {term}); }

// floor(a / d) for an integer d > 0: multiples of d leave the division, and a common divisor of the rest is taken out.
Size floor_div_by(const Size& a, std::int64_t d) {
  Terms whole, rest;
  for (const Term& term : a.terms()) {
    const std::int64_t multiple = floor_quotient(term.coefficient, d);
    if (multiple != 0) whole.push_back({multiple, term.factors});
    if (const std::int64_t left = remainder_of(term.coefficient, d); left != 0) rest.push_back({left, term.factors});
  }
  const std::int64_t multiple = floor_quotient(a.number(), d);
  Size left = Size::sum(remainder_of(a.number(), d), std::move(rest));
  const Size outside = Size::sum(multiple, std::move(whole));
  if (left.is_integer()) return outside;  // below d
  const std::int64_t common = std::gcd(content_of(left), d);
  left = divided(Size::sum(left.number() / common * common, left.terms()), common);
  const std::int64_t divisor = d / common;
  if (divisor == 1) return outside + left;
  // (a // b) // d is a // (b*d), for positive b: only integers are certain to be.
  if (left.number() == 0 && left.terms().size() == 1 && left.terms()[0].coefficient == 1 &&
      left.terms()[0].factors.size() == 1) {
    const SizeAtom& inner = *left.terms()[0].factors[0];
    std::int64_t product = 0;
    if (inner.kind == Kind::floor_division && inner.operands[1].integer().value_or(0) > 0 &&
        !__builtin_mul_overflow(*inner.operands[1].integer(), divisor, &product)) {
      return outside + floor_div(inner.operands[0], product);
    }
  }
  return outside + of_atom({Kind::floor_division, -1, {}, {left, divisor}});
}

// floor(a / b) for a divisor of several terms.
Size floor_div_by_sum(const Size& a, const Size& b) {
  if (a == Size(0)) return 0;
  // a = q*b exactly, for q an integer or a product: each term of a over the first of b.
  const Term& first = b.terms().front();
  for (const Term& term : a.terms()) {
    if (const auto factor = quotient(term, first); factor && size_of(*factor) * b == a) return size_of(*factor);
  }
  const std::int64_t common =
      std::gcd(std::gcd(content_of(a), magnitude(a.number())), std::gcd(content_of(b), magnitude(b.number())));
  return of_atom({Kind::floor_division, -1, {}, {divided(a, common), divided(b, common)}});
}

// floor(a / b) for a product b: what holds the product leaves the division, and what all hold is taken out.
Size floor_div_by_product(const Size& a, const Size& b) {
  const Term divisor = b.terms().front();
  if (divisor.coefficient < 0) return floor_div(Size(-1) * a, Size(-1) * b);
  Terms whole, rest;
  std::int64_t whole_number = 0;
  for (const Term& term : a.terms()) {
    if (const auto each = quotient(term, divisor)) {
      if (each->factors.empty()) {
        whole_number = each->coefficient;
      } else {
        whole.push_back(*each);
      }
    } else {
      rest.push_back(term);
    }
  }
  const Size outside = collected(whole_number, std::move(whole));
  Size left = Size::sum(a.number(), std::move(rest));
  if (left == Size(0)) return outside;
  Term common = divisor;  // factors of all terms and the divisor
  if (left.number() != 0) common.factors.clear();
  for (const Term& term : left.terms()) {
    Factors kept;
    std::ranges::set_intersection(common.factors, term.factors, std::back_inserter(kept), atom_precedes);
    common.factors = std::move(kept);
  }
  common.coefficient = std::gcd(std::gcd(content_of(left), magnitude(left.number())), magnitude(divisor.coefficient));
  if (common.coefficient <= 0) return Size::unknown();
  Terms reduced;
  for (const Term& term : left.terms()) {
    const auto each = quotient(term, common);
    if (!each) return Size::unknown();
    reduced.push_back(*each);
  }
  std::int64_t number = left.number() / common.coefficient;
  std::erase_if(reduced, [&](const Term& term) {
    if (term.factors.empty()) number += term.coefficient;
    return term.factors.empty();
  });
  const auto below = quotient(divisor, common);
  const Size above = collected(number, std::move(reduced));
  if (below->factors.empty()) return outside + floor_div(above, below->coefficient);
  return outside + of_atom({Kind::floor_division, -1, {}, {above, size_of(*below)}});
}

Size extreme(const std::vector<Size>& sizes, Kind kind) {
  std::vector<Size> operands;
  for (const Size& size : sizes) {
    if (!size.is_known()) return Size::unknown();
    const Terms& terms = size.terms();
    const bool nested = size.number() == 0 && terms.size() == 1 && terms[0].coefficient == 1 &&
                        terms[0].factors.size() == 1 && terms[0].factors[0]->kind == kind;
    for (const Size& operand : nested ? terms[0].factors[0]->operands : std::vector<Size>{size}) {
      // One decides where two are a number apart.
      const auto other =
          std::ranges::find_if(operands, [&](const Size& each) { return (each - operand).is_integer(); });
      if (other == operands.end()) {
        operands.push_back(operand);
      } else if (((*other - operand).number() > 0) == (kind == Kind::minimum)) {
        *other = operand;
      }
    }
  }
  if (operands.empty()) return Size::unknown();
  if (operands.size() == 1) return operands.front();
  std::ranges::sort(operands);
  return operands.size() > most_terms ? Size::unknown() : of_atom({kind, -1, {}, std::move(operands)});
}

}  // namespace

// ---- making -------------------------------------------------------------------------------------------------------

Size Size::symbol(SymbolId id) { return of_atom({Kind::symbol, id, {}, {}}); }

Size Size::call(std::string name, std::vector<Size> operands) {
  return of_atom({Kind::call, -1, std::move(name), std::move(operands)});
}

Size Size::unknown() {
  Size size;
  size.terms_ = unknown_terms();
  return size;
}

Size Size::sum(std::int64_t number, Terms terms) {
  Size size(number);
  if (!terms.empty()) size.terms_ = std::make_shared<const Terms>(std::move(terms));
  return size;
}

bool Size::is_known() const { return terms_ != unknown_terms(); }

const Size::Terms& Size::terms() const { return terms_ == nullptr ? *unknown_terms() : *terms_; }

std::optional<SymbolId> Size::single_symbol() const {
  if (number_ != 0 || terms().size() != 1) return std::nullopt;
  const Term& term = terms().front();
  if (term.coefficient != 1 || term.factors.size() != 1 || term.factors[0]->kind != Kind::symbol) return std::nullopt;
  return term.factors[0]->symbol;
}

std::vector<SymbolId> Size::symbols() const {
  std::vector<SymbolId> found;
  for (const Term& term : terms()) {
    for (const auto& factor : term.factors) {
      if (factor->kind == Kind::symbol) found.push_back(factor->symbol);
      for (const Size& operand : factor->operands) {
        const auto inner = operand.symbols();
        found.insert(found.end(), inner.begin(), inner.end());
      }
    }
  }
  std::ranges::sort(found);
  const auto twice = std::ranges::unique(found);
  found.erase(twice.begin(), twice.end());
  return found;
}

Size Size::with(const std::function<Size(SymbolId)>& size_of) const {
  if (!is_known()) return *this;
  Size result(number_);
  for (const Term& term : terms()) {
    Size product(term.coefficient);
    for (const auto& factor : term.factors) {
      std::vector<Size> operands;
      for (const Size& operand : factor->operands) operands.push_back(operand.with(size_of));
      switch (factor->kind) {
        case Kind::symbol:
          product = product * size_of(factor->symbol);
          break;
        case Kind::floor_division:
          product = product * floor_div(operands[0], operands[1]);
          break;
        case Kind::minimum:
          product = product * minimum(operands);
          break;
        case Kind::maximum:
          product = product * maximum(operands);
          break;
        case Kind::call:
          product = product * call(factor->name, std::move(operands));
          break;
      }
    }
    result = result + product;
  }
  return result;
}

std::strong_ordering Size::operator<=>(const Size& other) const {
  if (is_known() != other.is_known()) return is_known() <=> other.is_known();
  if (terms_ != other.terms_) {
    const auto order = std::lexicographical_compare_three_way(
        terms().begin(), terms().end(), other.terms().begin(), other.terms().end(), [](const Term& a, const Term& b) {
          const auto factors = order_of(a.factors, b.factors);
          return factors != 0 ? factors : a.coefficient <=> b.coefficient;
        });
    if (order != 0) return order;
  }
  return number_ <=> other.number_;
}

// ---- arithmetic ---------------------------------------------------------------------------------------------------

Size operator+(const Size& a, const Size& b) {
  std::int64_t number = 0;
  if (!a.is_known() || !b.is_known() || __builtin_add_overflow(a.number_, b.number_, &number)) return Size::unknown();
  if (b.is_integer() || a.is_integer()) {
    Size result = a.is_integer() ? b : a;
    result.number_ = number;
    return result;
  }
  Terms terms = a.terms();
  terms.insert(terms.end(), b.terms().begin(), b.terms().end());
  return collected(number, std::move(terms));
}

Size operator-(const Size& a, const Size& b) { return a + Size(-1) * b; }

Size operator*(const Size& a, const Size& b) {
  if (!a.is_known() || !b.is_known()) return Size::unknown();
  std::int64_t number = 0;
  if (__builtin_mul_overflow(a.number_, b.number_, &number)) return Size::unknown();
  if (a.is_integer() && b.is_integer()) return number;
  if (a.is_integer() ? a.number_ == 0 : b.is_integer() && b.number_ == 0) return 0;
  if ((a.terms().size() + 1) * (b.terms().size() + 1) > 4 * most_terms) return Size::unknown();
  Terms terms;
  const auto add = [&](std::int64_t x, const Factors& f, std::int64_t y, const Factors& g) {
    Term product;
    if (__builtin_mul_overflow(x, y, &product.coefficient)) return false;
    if (product.coefficient == 0) return true;
    std::ranges::merge(f, g, std::back_inserter(product.factors), atom_precedes);
    if (product.factors.size() > most_factors) return false;
    terms.push_back(std::move(product));
    return true;
  };
  for (const Term& term : a.terms()) {
    if (!add(term.coefficient, term.factors, b.number_, {})) return Size::unknown();
    for (const Term& other : b.terms()) {
      if (!add(term.coefficient, term.factors, other.coefficient, other.factors)) return Size::unknown();
    }
  }
  for (const Term& other : b.terms()) {
    if (!add(a.number_, {}, other.coefficient, other.factors)) return Size::unknown();
  }
  return collected(number, std::move(terms));
}

Size floor_div(const Size& a, const Size& b) {
  if (!a.is_known() || !b.is_known()) return Size::unknown();
  if (const auto divisor = b.integer()) {
    if (*divisor == 0 || *divisor == std::numeric_limits<std::int64_t>::min()) return Size::unknown();
    const Size& dividend = *divisor < 0 ? Size(-1) * a : a;
    return dividend.is_known() ? floor_div_by(dividend, std::abs(*divisor)) : dividend;
  }
  if (!(Size(-1) * a).is_known() || !(Size(-1) * b).is_known()) return Size::unknown();
  return b.number() != 0 || b.terms().size() > 1 ? floor_div_by_sum(a, b) : floor_div_by_product(a, b);
}

Size modulo(const Size& a, const Size& b) { return a - b * floor_div(a, b); }

Size minimum(const std::vector<Size>& sizes) { return extreme(sizes, Kind::minimum); }
Size maximum(const std::vector<Size>& sizes) { return extreme(sizes, Kind::maximum); }

// ---- value --------------------------------------------------------------------------------------------------------

namespace {

// torch.export computes some sizes by way of floating point: TruncToInt(0.5*ToFloat(s0)).
using Number = std::variant<std::int64_t, double>;

double real(const Number& number) {
  return std::visit([](auto each) { return static_cast<double>(each); }, number);
}

std::optional<Number> whole(double number) {
  constexpr double most = 9.0e18;
  if (!(std::abs(number) < most)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::optional<Number> number_of(const Size& size, const SymbolNumbers& numbers);

std::optional<Number> called(const std::string& name, const std::vector<Number>& given) {
  if (given.empty()) {
    const auto literal = parse_number<double>(name);
    return literal ? std::optional<Number>(*literal) : std::nullopt;
  }
  const double first = real(given[0]);
  if (given.size() == 1) {
    if (name == "ToFloat") return first;
    if (name == "TruncToInt") return whole(std::trunc(first));
    if (name == "FloorToInt") return whole(std::floor(first));
    if (name == "CeilToInt") return whole(std::ceil(first));
    if (name == "RoundToInt") return whole(std::nearbyint(first));
    return std::nullopt;
  }
  if (given.size() != 2) return std::nullopt;
  const double second = real(given[1]);
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
  std::vector<Number> given;
  for (const Size& operand : atom.operands) {
    const auto number = number_of(operand, numbers);
    if (!number) return std::nullopt;
    given.push_back(*number);
  }
  if (atom.kind == Kind::call) return called(atom.name, given);
  const auto less = [](const Number& a, const Number& b) {
    return a.index() == 0 && b.index() == 0 ? std::get<0>(a) < std::get<0>(b) : real(a) < real(b);
  };
  if (atom.kind == Kind::minimum) return *std::ranges::min_element(given, less);
  if (atom.kind == Kind::maximum) return *std::ranges::max_element(given, less);
  const auto *above = std::get_if<std::int64_t>(&given[0]), *below = std::get_if<std::int64_t>(&given[1]);
  if (above != nullptr && below != nullptr) {
    if (overflows(*above, *below)) return std::nullopt;
    return floor_quotient(*above, *below);
  }
  return real(given[1]) == 0 ? std::nullopt : std::optional<Number>(std::floor(real(given[0]) / real(given[1])));
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
  for (const Term& term : size.terms()) {
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
  const auto rounded = whole(found);
  return rounded && real(*rounded) == found ? std::optional(std::get<std::int64_t>(*rounded)) : std::nullopt;
}

// ---- ranges -------------------------------------------------------------------------------------------------------

namespace {

// Ends of ranges in 128 bits, cut to 64 after each step: the greatest and the least number mean "any".
using Wide = __int128;
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                       most = std::numeric_limits<std::int64_t>::max();

std::int64_t cut(Wide number) {
  return number <= least ? least : number >= most ? most : static_cast<std::int64_t>(number);
}

SizeRange product_of(const SizeRange& a, const SizeRange& b) {
  const auto end = [](std::int64_t x, std::int64_t y) { return cut(Wide{x} * y); };
  const auto ends = {end(a.min, b.min), end(a.min, b.max), end(a.max, b.min), end(a.max, b.max)};
  return {std::min(ends), std::max(ends)};
}

SizeRange sum_of(const SizeRange& a, const SizeRange& b) {
  return {a.min == least || b.min == least ? least : cut(Wide{a.min} + b.min),
          a.max == most || b.max == most ? most : cut(Wide{a.max} + b.max)};
}

SizeRange quotient_of(const SizeRange& a, const SizeRange& b) {
  if (b.min <= 0) return {};
  const auto end = [](std::int64_t x, std::int64_t y) {
    return x == least || x == most ? (y == most ? (x < 0 ? -1 : 0) : x) : floor_quotient(x, y);
  };
  // An end that means "any" stays so, whatever it is divided by.
  const std::int64_t low = a.min == least ? least : std::min(end(a.min, b.min), end(a.min, b.max));
  const std::int64_t high = a.max == most ? most : std::max(end(a.max, b.min), end(a.max, b.max));
  return {low, high};
}

SizeRange range_of(const SizeAtom& atom, const SymbolRanges& ranges) {
  if (atom.kind == Kind::symbol) return ranges(atom.symbol);
  if (atom.kind == Kind::call) return {};
  SizeRange result = range_of(atom.operands[0], ranges);
  for (std::size_t i = 1; i < atom.operands.size(); ++i) {
    const SizeRange next = range_of(atom.operands[i], ranges);
    if (atom.kind == Kind::floor_division) result = quotient_of(result, next);
    if (atom.kind == Kind::minimum) result = {std::min(result.min, next.min), std::min(result.max, next.max)};
    if (atom.kind == Kind::maximum) result = {std::max(result.min, next.min), std::max(result.max, next.max)};
  }
  return result;
}

// As if the terms had nothing to do with each other.
SizeRange range_of_terms(const Size& size, const SymbolRanges& ranges) {
  SizeRange sum{size.number(), size.number()};
  for (const Term& term : size.terms()) {
    SizeRange product{term.coefficient, term.coefficient};
    for (const auto& factor : term.factors) product = product_of(product, range_of(*factor, ranges));
    sum = sum_of(sum, product);
  }
  return sum;
}

// The least number of a size whose terms depend on the same symbols: n - n//2 is 0 or more. Puts for a minimum or
// maximum each of its operands, for a division its bounds, so often at most.
std::int64_t least_of(const Size& size, const SymbolRanges& ranges, int steps) {
  if (!size.is_known()) return least;
  const std::int64_t apart = range_of_terms(size, ranges).min;
  for (const Term& term : size.terms()) {
    const SizeAtom& atom = *term.factors.front();
    if (steps == 0 || term.factors.size() > 1 || atom.kind == Kind::symbol || atom.kind == Kind::call) continue;
    const Size rest = size - Size::sum(0, {term});
    const bool rises = term.coefficient > 0;
    if (atom.kind == Kind::floor_division) {
      const std::int64_t divisor = atom.operands[1].integer().value_or(0);
      if (divisor <= 0) continue;
      const Size bound = rises ? atom.operands[0] - Size(divisor - 1) : atom.operands[0];
      const std::int64_t times = least_of(rest * divisor + bound * term.coefficient, ranges, steps - 1);
      return times == least ? apart : std::max(apart, -floor_quotient(-times, divisor));
    }
    const bool is_any = (atom.kind == Kind::minimum) == rises;  // of the sums below, the size is the least
    std::int64_t found = is_any ? most : least;
    for (const Size& operand : atom.operands) {
      const std::int64_t next = least_of(rest + operand * term.coefficient, ranges, steps - 1);
      found = is_any ? std::min(found, next) : std::max(found, next);
    }
    return std::max(apart, found);
  }
  return apart;
}

}  // namespace

SizeRange range_of(const Size& size, const SymbolRanges& ranges) {
  if (!size.is_known()) return {};
  constexpr int steps = 4;
  const std::int64_t opposite = least_of(Size(0) - size, ranges, steps);
  return {least_of(size, ranges, steps),
          std::min(range_of_terms(size, ranges).max, opposite == least ? most : -opposite)};
}

bool certainly_equal(const Size& a, const Size& b) { return a.is_known() && b.is_known() && a == b; }

bool certainly_different(const Size& a, const Size& b, const SymbolRanges& ranges) {
  const Size difference = a - b;
  if (!difference.is_known()) return false;
  if (!range_of(difference, ranges).holds(0)) return true;
  // 2*n and 2*m + 1; calls may be no integers.
  const bool integral = std::ranges::all_of(difference.terms(), [](const Term& term) {
    return std::ranges::none_of(term.factors, [](const auto& factor) { return factor->kind == Kind::call; });
  });
  const std::int64_t content = content_of(difference);
  return integral && content > 1 && difference.number() % content != 0;
}

bool may_be(const Size& size, std::int64_t number, const SymbolRanges& ranges) {
  return !certainly_different(size, number, ranges);
}

// ---- text ---------------------------------------------------------------------------------------------------------

namespace {

using Names = std::function<std::string(SymbolId)>;

std::string operand_text(const Size& size, const Names& name_of) {
  const std::string text = text_of(size, name_of);
  const auto in_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return std::ranges::all_of(text, in_name) ? text : "(" + text + ")";
}

std::string text_of(const SizeAtom& atom, const Names& name_of) {
  if (atom.kind == Kind::symbol) return name_of(atom.symbol);
  if (atom.kind == Kind::floor_division) {
    return "(" + operand_text(atom.operands[0], name_of) + "//" + operand_text(atom.operands[1], name_of) + ")";
  }
  std::string text = atom.kind == Kind::minimum ? "Min" : atom.kind == Kind::maximum ? "Max" : atom.name;
  if (atom.kind == Kind::call && atom.operands.empty()) return text;
  const char* before = "(";
  for (const Size& operand : atom.operands) text += before + text_of(operand, name_of), before = ", ";
  return text + ")";
}

// "-2*batch" without its sign.
std::string text_of(const Term& term, const Names& name_of) {
  std::vector<std::string> factors;
  for (const auto& factor : term.factors) factors.push_back(text_of(*factor, name_of));
  std::string text = term.coefficient == 1 || term.coefficient == -1
                         ? ""
                         : std::to_string(term.coefficient).substr(term.coefficient < 0 ? 1 : 0);
  for (std::size_t i = 0; i < factors.size();) {
    std::size_t times = 1;
    while (i + times < factors.size() && *term.factors[i + times] == *term.factors[i]) ++times;
    text += (text.empty() ? "" : "*") + factors[i] + (times > 1 ? "**" + std::to_string(times) : "");
    i += times;
  }
  return text;
}

}  // namespace

std::string text_of(const Size& size, const Names& name_of) {
  if (!size.is_known()) return "?";
  std::vector<const Term*> terms;
  for (const Term& term : size.terms()) terms.push_back(&term);
  // Products of many sizes first, as sympy writes them.
  std::ranges::stable_sort(terms, std::greater(), [](const Term* term) { return term->factors.size(); });
  std::string text;
  const auto add = [&](bool negative, const std::string& part) {
    text += text.empty() ? (negative ? "-" : "") : negative ? " - " : " + ";
    text += part;
  };
  for (const Term* term : terms) add(term->coefficient < 0, text_of(*term, name_of));
  const std::int64_t number = size.number();
  if (number != 0 || terms.empty()) add(number < 0, std::to_string(number).substr(number < 0 ? 1 : 0));
  return text;
}

}  // namespace whence
