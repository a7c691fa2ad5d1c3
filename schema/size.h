// Size: the length of an axis, or a number computed from lengths, as a canonical expression over symbols.
//
// Who makes it: the readers of programs, by arithmetic or with size_text.h. Who asks it: everyone who compares sizes.
// Guaranteed: two polynomials over the same symbols that are equal are one Size, and == says so. Floor division,
// minimum and maximum are simplified where integers alone decide; what is left of them, and each function that is
// unknown here, is an atom: equal to another one if its operands are. A Size whose numbers do not fit into 64 bits, or
// that has grown beyond a page, is `unknown`. It is immutable and cheap to copy.
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
    Factors factors;               // in order, at least one; a power is a factor several times
  };
  using Terms = std::vector<Term>;  // in order, no two of the same factors

  Size(std::int64_t number = 0) : number_(number) {}  // implicit: an integer is a size
  static Size symbol(SymbolId id);
  // A function that has no form here, of these operands: "TruncToInt(0.5*ToFloat(s0))".
  static Size call(std::string name, std::vector<Size> operands);
  static Size unknown();
  // The sum of `number` and terms that are in canonical form already.
  static Size sum(std::int64_t number, Terms terms);

  bool is_known() const;
  bool is_integer() const { return terms_ == nullptr; }
  std::optional<std::int64_t> integer() const { return is_integer() ? std::optional(number_) : std::nullopt; }
  std::optional<SymbolId> single_symbol() const;  // set if the size is a symbol and nothing else

  std::int64_t number() const { return number_; }  // the part of a sum that is an integer
  const Terms& terms() const;
  std::vector<SymbolId> symbols() const;  // those that it depends on, in order
  // The size with `size_of(id)` in the place of each symbol.
  Size with(const std::function<Size(SymbolId)>& size_of) const;

  friend Size operator+(const Size& a, const Size& b);
  friend Size operator-(const Size& a, const Size& b);
  friend Size operator*(const Size& a, const Size& b);

  // The same expression; an unknown size has an order, but is certain to equal nothing: certainly_equal().
  bool operator==(const Size& other) const { return (*this <=> other) == 0; }
  std::strong_ordering operator<=>(const Size& other) const;

 private:
  std::int64_t number_ = 0;
  std::shared_ptr<const Terms> terms_;  // null for an integer
};

// An operand that sums and products cannot take apart.
struct SizeAtom {
  enum class Kind : std::uint8_t { symbol, floor_division, minimum, maximum, call };

  Kind kind = Kind::symbol;
  SymbolId symbol = none_id;
  std::string name;            // a call's
  std::vector<Size> operands;  // two of a floor division; those of a minimum and a maximum in order

  std::strong_ordering operator<=>(const SizeAtom&) const = default;
  bool operator==(const SizeAtom&) const = default;
};

// Rounded towards minus infinity, as Python's //. Division by 0 is unknown; of integers, not allowed.
std::int64_t floor_quotient(std::int64_t a, std::int64_t b);
Size floor_div(const Size& a, const Size& b);
// Python's %: has the sign of b.
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

// Holds where one of these holds.
struct Constraint {
  std::vector<Comparison> any;

  bool operator==(const Constraint&) const = default;
};

// ---- questions ----------------------------------------------------------------------------------------------------

// Between these, both included.
struct SizeRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min(), max = std::numeric_limits<std::int64_t>::max();

  bool holds(std::int64_t number) const { return min <= number && number <= max; }
};

// The range of a symbol in all runs: of a length at least 0 to the greatest number.
using SymbolRanges = std::function<SizeRange(SymbolId)>;
// The number that a symbol has in a run; nullopt if that is not known.
using SymbolNumbers = std::function<std::optional<std::int64_t>(SymbolId)>;

// The same number in every run.
bool certainly_equal(const Size& a, const Size& b);
// Another number in every run.
bool certainly_different(const Size& a, const Size& b, const SymbolRanges& ranges);
// Some run may give it this number: 0 or 1, say.
bool may_be(const Size& size, std::int64_t number, const SymbolRanges& ranges);
// Not always exact (size_range.cpp): it has all numbers that the size takes, and may have others.
SizeRange range_of(const Size& size, const SymbolRanges& ranges);
// Its number in a run (size_value.cpp); nullopt for an unknown size, and for calls without a known function.
std::optional<std::int64_t> value_of(const Size& size, const SymbolNumbers& numbers);
// Readable (size_printing.cpp), and a text that read_size() reads: "2*batch + 1", "((h - 1)//2)". An unknown one is
// "?".
std::string text_of(const Size& size, const std::function<std::string(SymbolId)>& name_of);

}  // namespace whence
