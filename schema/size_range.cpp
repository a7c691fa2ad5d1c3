// Computes the range of a size from the ranges of its symbols.
#include <algorithm>
#include <unordered_map>

#include "schema/size.h"

namespace whence {

namespace {

using Kind = SizeAtom::Kind;

// Bounds are computed in 128 bits and saturated to 64 bits. The lowest and highest number mean "unbounded".
using Wide = __int128;
constexpr std::int64_t unbounded_min = std::numeric_limits<std::int64_t>::min(),
                       unbounded_max = std::numeric_limits<std::int64_t>::max();

std::int64_t saturated(Wide number) {
  return number <= unbounded_min   ? unbounded_min
         : number >= unbounded_max ? unbounded_max
                                   : static_cast<std::int64_t>(number);
}

SizeRange product_of(const SizeRange& a, const SizeRange& b) {
  const auto end = [](std::int64_t x, std::int64_t y) { return saturated(Wide{x} * y); };
  const auto ends = {end(a.min, b.min), end(a.min, b.max), end(a.max, b.min), end(a.max, b.max)};
  return {std::min(ends), std::max(ends)};
}

SizeRange sum_of(const SizeRange& a, const SizeRange& b) {
  return {a.min == unbounded_min || b.min == unbounded_min ? unbounded_min : saturated(Wide{a.min} + b.min),
          a.max == unbounded_max || b.max == unbounded_max ? unbounded_max : saturated(Wide{a.max} + b.max)};
}

SizeRange quotient_of(const SizeRange& a, const SizeRange& b) {
  if (b.min <= 0) return {};
  const auto end = [](std::int64_t x, std::int64_t y) {
    return x == unbounded_min || x == unbounded_max ? (y == unbounded_max ? (x < 0 ? -1 : 0) : x)
                                                    : floor_quotient(x, y);
  };
  // An unbounded end stays unbounded, whatever the divisor is.
  const std::int64_t low = a.min == unbounded_min ? unbounded_min : std::min(end(a.min, b.min), end(a.min, b.max));
  const std::int64_t high = a.max == unbounded_max ? unbounded_max : std::max(end(a.max, b.min), end(a.max, b.max));
  return {low, high};
}

// Computes the range of a size and caches the ranges of its atoms.
class Ranges {
 public:
  explicit Ranges(const SymbolRanges& symbols) : symbols_(symbols) {}

  SizeRange of(const Size& size) {
    if (!size.is_known()) return {};
    constexpr int steps = 4;
    const std::int64_t opposite = least_of(Size(0) - size, steps);
    return {least_of(size, steps), std::min(of_terms(size).max, opposite == unbounded_min ? unbounded_max : -opposite)};
  }

 private:
  // Caches the result because an atom may occur in many sums and in other atoms.
  SizeRange of(const SizeAtom& atom) {
    if (atom.kind == Kind::symbol) return symbols_(atom.symbol);
    if (atom.kind == Kind::call) return {};
    if (const auto known = atoms_.find(&atom); known != atoms_.end()) return known->second;
    SizeRange result = of(atom.operands[0]);
    for (std::size_t i = 1; i < atom.operands.size(); ++i) {
      const SizeRange next = of(atom.operands[i]);
      if (atom.kind == Kind::floor_division) result = quotient_of(result, next);
      if (atom.kind == Kind::minimum) result = {std::min(result.min, next.min), std::min(result.max, next.max)};
      if (atom.kind == Kind::maximum) result = {std::max(result.min, next.min), std::max(result.max, next.max)};
    }
    return atoms_[&atom] = result;
  }

  // Adds the ranges of the terms as if they were independent.
  SizeRange of_terms(const Size& size) {
    SizeRange sum{size.number(), size.number()};
    for (const Size::Term& term : size.terms()) {
      SizeRange product{term.coefficient, term.coefficient};
      for (const auto& factor : term.factors) product = product_of(product, of(*factor));
      sum = sum_of(sum, product);
    }
    return sum;
  }

  // Returns the minimum of a size whose terms share symbols: n - n//2 is at least 0. Replaces a minimum or maximum with
  // each of its operands and a division with its bounds, at most `steps` times.
  std::int64_t least_of(const Size& size, int steps) {
    if (!size.is_known()) return unbounded_min;
    const std::int64_t independent_min = of_terms(size).min;
    for (const Size::Term& term : size.terms()) {
      const SizeAtom& atom = *term.factors.front();
      if (steps == 0 || term.factors.size() > 1 || atom.kind == Kind::symbol || atom.kind == Kind::call) continue;
      const Size rest = size - Size::sum(0, {term});
      const bool rises = term.coefficient > 0;
      if (atom.kind == Kind::floor_division) {
        const std::int64_t divisor = atom.operands[1].integer().value_or(0);
        if (divisor <= 0) continue;
        const Size bound = rises ? atom.operands[0] - Size(divisor - 1) : atom.operands[0];
        const std::int64_t times = least_of(rest * divisor + bound * term.coefficient, steps - 1);
        return times == unbounded_min ? independent_min : std::max(independent_min, -floor_quotient(-times, divisor));
      }
      const bool is_any = (atom.kind == Kind::minimum) == rises;  // true if the size is the least of the sums below
      std::int64_t found = is_any ? unbounded_max : unbounded_min;
      for (const Size& operand : atom.operands) {
        const std::int64_t next = least_of(rest + operand * term.coefficient, steps - 1);
        found = is_any ? std::min(found, next) : std::max(found, next);
      }
      return std::max(independent_min, found);
    }
    return independent_min;
  }

  const SymbolRanges& symbols_;
  std::unordered_map<const SizeAtom*, SizeRange> atoms_;
};

}  // namespace

SizeRange range_of(const Size& size, const SymbolRanges& ranges) { return Ranges(ranges).of(size); }

}  // namespace whence
