// Size: the length of an axis, or a number computed from lengths, as a canonical expression over symbols.
//
// Readers of programs make sizes by arithmetic or with size_text.h. Equal polynomials over the same symbols compare
// equal with ==. Floor division, minimum and maximum are simplified if integers decide the result; otherwise they are
// atoms, as are calls of unknown functions. Atoms are equal if their operands are equal. A Size whose numbers do not
// fit into 64 bits, or whose expression is too large, is `unknown`. A Size is immutable and cheap to copy.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/index.h"

namespace whence {

using SymbolId = Index<struct Symbol>;  // into Program::symbols

struct SizeAtom;

class Size {
 public:
  using Factors = std::vector<std::shared_ptr<const SizeAtom>>;
  struct Term {
    std::int64_t coefficient = 1;  // never 0
    Factors factors;               // sorted, at least one; a power repeats its factor
  };
  using Terms = std::vector<Term>;  // sorted, with distinct factors

  Size(std::int64_t number = 0) : number_(number) {}  // implicit: an integer is a size
  static Size symbol(SymbolId id);
  // The call of a function that cannot be expressed otherwise: "TruncToInt(0.5*ToFloat(s0))".
  static Size call(std::string name, std::vector<Size> operands);
  static Size unknown();
  // The sum of `number` and terms, which must be in canonical form.
  static Size sum(std::int64_t number, Terms terms);

  bool is_known() const;
  bool is_integer() const { return terms_ == nullptr; }
  std::optional<std::int64_t> integer() const { return is_integer() ? std::optional(number_) : std::nullopt; }
  std::optional<SymbolId> single_symbol() const;  // set if the size is only a symbol

  std::int64_t number() const { return number_; }  // the integer part of the sum
  const Terms& terms() const;
  std::vector<SymbolId> symbols() const;  // all symbols in the size, sorted
  // Returns the size with each symbol replaced with `size_of(id)`.
  Size with(const std::function<Size(SymbolId)>& size_of) const;

  friend Size operator+(const Size& a, const Size& b);
  friend Size operator-(const Size& a, const Size& b);
  friend Size operator*(const Size& a, const Size& b);

  // Compares expressions. Unknown sizes compare equal here, but never with certainly_equal().
  bool operator==(const Size& other) const { return (*this <=> other) == 0; }
  std::strong_ordering operator<=>(const Size& other) const;

 private:
  std::int64_t number_ = 0;
  std::shared_ptr<const Terms> terms_;  // null for an integer
};

// A factor that is not a sum or product: a symbol, division, minimum, maximum or call.
struct SizeAtom {
  enum class Kind : std::uint8_t { symbol, floor_division, minimum, maximum, call };

  Kind kind = Kind::symbol;
  SymbolId symbol = none_id;
  std::string name;            // for calls
  std::vector<Size> operands;  // two for a floor division; sorted for minimum and maximum

  std::strong_ordering operator<=>(const SizeAtom&) const = default;
  bool operator==(const SizeAtom&) const = default;
};

// Python's //, rounded towards minus infinity. floor_div by 0 is unknown; floor_quotient by 0 is not allowed.
std::int64_t floor_quotient(std::int64_t a, std::int64_t b);
Size floor_div(const Size& a, const Size& b);
// Python's %: the result has the sign of b.
Size modulo(const Size& a, const Size& b);
Size minimum(const std::vector<Size>& sizes);
Size maximum(const std::vector<Size>& sizes);

// ---- conditions ---------------------------------------------------------------------------------------------------

enum class Relation : std::uint8_t { equal, different, less, at_most, greater, at_least };

struct Comparison {
  Size left;
  Relation relation = Relation::equal;
  Size right;

  bool operator==(const Comparison&) const = default;
};

// Holds if one of the comparisons holds.
struct Constraint {
  std::vector<Comparison> any;

  bool operator==(const Constraint&) const = default;
};

// ---- queries ------------------------------------------------------------------------------------------------------

// A range of integers, both ends included.
struct SizeRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min(), max = std::numeric_limits<std::int64_t>::max();

  bool holds(std::int64_t number) const { return min <= number && number <= max; }
};

// Returns the range of a symbol over all runs. The minimum of a length is at least 0.
using SymbolRanges = std::function<SizeRange(SymbolId)>;
// Returns the value of a symbol in a run; nullopt if unknown.
using SymbolNumbers = std::function<std::optional<std::int64_t>(SymbolId)>;

// Returns true if the sizes are certain to be equal in every run.
bool certainly_equal(const Size& a, const Size& b);
// Returns true if the sizes are certain to differ in every run.
bool certainly_different(const Size& a, const Size& b, const SymbolRanges& ranges);
// True unless the size is certain to differ from the number in every run.
bool may_be(const Size& size, std::int64_t number, const SymbolRanges& ranges);
// Returns a range that contains all values of the size, and possibly more (size_range.cpp).
SizeRange range_of(const Size& size, const SymbolRanges& ranges);
// Returns the value in a run (size_value.cpp); nullopt for an unknown size, and for calls of unknown functions.
std::optional<std::int64_t> value_of(const Size& size, const SymbolNumbers& numbers);
// Returns readable text that read_size() can parse (size_printing.cpp): "2*batch + 1", "((h - 1)//2)"; "?" if unknown.
std::string text_of(const Size& size, const std::function<std::string(SymbolId)>& name_of);

}  // namespace whence
