// Canonical arithmetic on sizes: sums, products, floor division, minimum and maximum.
#include "schema/size.h"

#include <algorithm>
#include <numeric>

namespace whence {

namespace {

using Kind = SizeAtom::Kind;
using Factors = Size::Factors;
using Term = Size::Term;
using Terms = Size::Terms;

// Larger expressions become unknown sizes: an untrusted archive may contain any expression.
constexpr std::size_t max_terms = 64, max_factors = 16, max_atoms = 300;

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

// Counts every occurrence of an atom, which bounds the time of a traversal.
std::size_t atoms_in(const Size& size) {
  std::size_t count = 0;
  for (const Term& term : size.terms()) {
    for (const auto& factor : term.factors) {
      ++count;
      for (const Size& operand : factor->operands) count += atoms_in(operand);
    }
  }
  return count;
}

Size of_atom(SizeAtom atom) {
  std::size_t atoms = 1;
  for (const Size& operand : atom.operands) {
    if (!operand.is_known()) return Size::unknown();
    atoms += atoms_in(operand);
  }
  if (atoms > max_atoms) return Size::unknown();
  return Size::sum(0, {{1, {std::make_shared<const SizeAtom>(std::move(atom))}}});
}

// Adds terms with equal factors. Returns an unknown size on overflow.
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
  return sum.size() > max_terms ? Size::unknown() : Size::sum(number, std::move(sum));
}

// Returns a - b*floor(a/b) for b > 0.
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

// Returns the greatest common divisor of the coefficients, 0 without terms.
std::int64_t content_of(const Size& size) {
  std::int64_t divisor = 0;
  for (const Term& term : size.terms()) divisor = std::gcd(divisor, magnitude(term.coefficient));
  return divisor;
}

// Returns size / divisor. The divisor must divide every coefficient and the number.
Size divided(const Size& size, std::int64_t divisor) {
  Terms terms = size.terms();
  for (Term& term : terms) term.coefficient /= divisor;
  return Size::sum(size.number() / divisor, std::move(terms));
}

// Returns term / divisor; nullopt if the divisor's factors or coefficient do not divide the term.
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

// Returns floor(a / d) for an integer d > 0. Moves multiples of d out of the division and cancels a common divisor.
Size floor_div_by(const Size& a, std::int64_t d) {
  Terms quotients, remainders;
  for (const Term& term : a.terms()) {
    const std::int64_t multiple = floor_quotient(term.coefficient, d);
    if (multiple != 0) quotients.push_back({multiple, term.factors});
    if (const std::int64_t rest = remainder_of(term.coefficient, d); rest != 0)
      remainders.push_back({rest, term.factors});
  }
  const std::int64_t multiple = floor_quotient(a.number(), d);
  Size dividend = Size::sum(remainder_of(a.number(), d), std::move(remainders));
  const Size outside = Size::sum(multiple, std::move(quotients));
  if (dividend.is_integer()) return outside;  // it is less than d
  const std::int64_t common = std::gcd(content_of(dividend), d);
  dividend = divided(Size::sum(dividend.number() / common * common, dividend.terms()), common);
  const std::int64_t divisor = d / common;
  if (divisor == 1) return outside + dividend;
  // (a // b) // d equals a // (b*d) for positive b. Only integers are certain to be positive.
  if (dividend.number() == 0 && dividend.terms().size() == 1 && dividend.terms()[0].coefficient == 1 &&
      dividend.terms()[0].factors.size() == 1) {
    const SizeAtom& inner = *dividend.terms()[0].factors[0];
    std::int64_t product = 0;
    if (inner.kind == Kind::floor_division && inner.operands[1].integer().value_or(0) > 0 &&
        !__builtin_mul_overflow(*inner.operands[1].integer(), divisor, &product)) {
      return outside + floor_div(inner.operands[0], product);
    }
  }
  return outside + of_atom({Kind::floor_division, none_id, {}, {dividend, divisor}});
}

// Returns floor(a / b) for a divisor with several terms.
Size floor_div_by_sum(const Size& a, const Size& b) {
  if (a == Size(0)) return 0;
  // Finds an integer or product q with a = q*b: the quotients of a's terms by the first term of b are the candidates.
  const Term& first = b.terms().front();
  for (const Term& term : a.terms()) {
    if (const auto factor = quotient(term, first); factor && size_of(*factor) * b == a) return size_of(*factor);
  }
  const std::int64_t common =
      std::gcd(std::gcd(content_of(a), magnitude(a.number())), std::gcd(content_of(b), magnitude(b.number())));
  return of_atom({Kind::floor_division, none_id, {}, {divided(a, common), divided(b, common)}});
}

// Returns floor(a / b) for a product b. Moves multiples of b out of the division and cancels common factors.
Size floor_div_by_product(const Size& a, const Size& b) {
  const Term divisor = b.terms().front();
  if (divisor.coefficient < 0) return floor_div(Size(-1) * a, Size(-1) * b);
  Terms quotients, rest;
  std::int64_t integer_quotient = 0;
  for (const Term& term : a.terms()) {
    if (const auto each = quotient(term, divisor)) {
      if (each->factors.empty()) {
        integer_quotient = each->coefficient;
      } else {
        quotients.push_back(*each);
      }
    } else {
      rest.push_back(term);
    }
  }
  const Size outside = collected(integer_quotient, std::move(quotients));
  Size dividend = Size::sum(a.number(), std::move(rest));
  if (dividend == Size(0)) return outside;
  Term common = divisor;  // common factors of all terms and the divisor
  if (dividend.number() != 0) common.factors.clear();
  for (const Term& term : dividend.terms()) {
    Factors kept;
    std::ranges::set_intersection(common.factors, term.factors, std::back_inserter(kept), atom_precedes);
    common.factors = std::move(kept);
  }
  common.coefficient =
      std::gcd(std::gcd(content_of(dividend), magnitude(dividend.number())), magnitude(divisor.coefficient));
  if (common.coefficient <= 0) return Size::unknown();
  Terms reduced;
  for (const Term& term : dividend.terms()) {
    const auto each = quotient(term, common);
    if (!each) return Size::unknown();
    reduced.push_back(*each);
  }
  std::int64_t number = dividend.number() / common.coefficient;
  std::erase_if(reduced, [&](const Term& term) {
    if (term.factors.empty()) number += term.coefficient;
    return term.factors.empty();
  });
  const auto denominator = quotient(divisor, common);
  const Size numerator = collected(number, std::move(reduced));
  if (denominator->factors.empty()) return outside + floor_div(numerator, denominator->coefficient);
  return outside + of_atom({Kind::floor_division, none_id, {}, {numerator, size_of(*denominator)}});
}

Size extreme(const std::vector<Size>& sizes, Kind kind) {
  std::vector<Size> operands;
  for (const Size& size : sizes) {
    if (!size.is_known()) return Size::unknown();
    const Terms& terms = size.terms();
    const bool nested = size.number() == 0 && terms.size() == 1 && terms[0].coefficient == 1 &&
                        terms[0].factors.size() == 1 && terms[0].factors[0]->kind == kind;
    for (const Size& operand : nested ? terms[0].factors[0]->operands : std::vector<Size>{size}) {
      // If two operands differ by an integer, only one of them matters.
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
  return operands.size() > max_terms ? Size::unknown() : of_atom({kind, none_id, {}, std::move(operands)});
}

}  // namespace

// ---- construction -------------------------------------------------------------------------------------------------

Size Size::symbol(SymbolId id) { return of_atom({Kind::symbol, id, {}, {}}); }

Size Size::call(std::string name, std::vector<Size> operands) {
  return of_atom({Kind::call, none_id, std::move(name), std::move(operands)});
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
  const auto duplicates = std::ranges::unique(found);
  found.erase(duplicates.begin(), duplicates.end());
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
  if ((a.terms().size() + 1) * (b.terms().size() + 1) > 4 * max_terms) return Size::unknown();
  Terms terms;
  const auto add = [&](std::int64_t x, const Factors& f, std::int64_t y, const Factors& g) {
    Term product;
    if (__builtin_mul_overflow(x, y, &product.coefficient)) return false;
    if (product.coefficient == 0) return true;
    std::ranges::merge(f, g, std::back_inserter(product.factors), atom_precedes);
    if (product.factors.size() > max_factors) return false;
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

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
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

// ---- queries ------------------------------------------------------------------------------------------------------

bool certainly_equal(const Size& a, const Size& b) { return a.is_known() && b.is_known() && a == b; }

bool certainly_different(const Size& a, const Size& b, const SymbolRanges& ranges) {
  const Size difference = a - b;
  if (!difference.is_known()) return false;
  if (!range_of(difference, ranges).holds(0)) return true;
  // Compares modulo the common divisor: 2*n and 2*m + 1 differ. Calls may return numbers that are not integers.
  const bool integral = std::ranges::all_of(difference.terms(), [](const Term& term) {
    return std::ranges::none_of(term.factors, [](const auto& factor) { return factor->kind == Kind::call; });
  });
  const std::int64_t content = content_of(difference);
  return integral && content > 1 && difference.number() % content != 0;
}

bool may_be(const Size& size, std::int64_t number, const SymbolRanges& ranges) {
  return !certainly_different(size, number, ranges);
}

}  // namespace whence
