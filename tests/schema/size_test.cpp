// Compares the algebra of sizes with integer arithmetic on random expressions. Parses sympy's text and guards.
#include "schema/size.h"

#include <random>

#include <gtest/gtest.h>

#include "schema/size_text.h"

namespace whence {
namespace {

Size symbol(int number) { return Size::symbol(SymbolId(number)); }
const Size s0 = symbol(0), s1 = symbol(1), s2 = symbol(2);

std::string name_of(SymbolId id) { return "s" + std::to_string(id.number()); }
std::optional<Size> named(const std::string& name) {
  return name.size() == 2 && name[0] == 's' ? std::optional(symbol(name[1] - '0')) : std::nullopt;
}
Size read(const std::string& text) { return read_size(text, named).value(); }
std::string text(const Size& size) { return text_of(size, name_of); }
SizeRange any_length(SymbolId) { return {0}; }

// A random expression as a Size, and as a function that computes its value with Python's integer arithmetic. The
// function returns nullopt for a division by 0.
using Numbers = std::array<std::int64_t, 3>;
struct Random {
  Size size;
  std::function<std::optional<std::int64_t>(const Numbers&)> number;
};

std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return (a - ((a % b) + b) % b) / b; }

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  Numbers numbers() { return {below(12), below(12), below(12)}; }

  Random expression(int depth, bool polynomial) {
    if (depth == 0 || below(5) == 0) {
      if (below(2) == 0) {
        const std::int64_t number = below(9) - 3;
        return {number, [number](const Numbers&) { return number; }};
      }
      const int id = below(3);
      return {symbol(id), [id](const Numbers& numbers) { return numbers[static_cast<std::size_t>(id)]; }};
    }
    const Random a = expression(depth - 1, polynomial), b = expression(depth - 1, polynomial);
    const auto combine = [&](Size size, auto compute) {
      return Random{std::move(size), [a, b, compute](const Numbers& numbers) -> std::optional<std::int64_t> {
                      const auto x = a.number(numbers), y = b.number(numbers);
                      return x && y ? std::optional<std::int64_t>(compute(*x, *y)) : std::nullopt;
                    }};
    };
    switch (below(polynomial ? 3 : 7)) {
      case 0:
        return combine(a.size + b.size, std::plus<std::int64_t>());
      case 1:
        return combine(a.size - b.size, std::minus<std::int64_t>());
      case 2:
        return combine(a.size * b.size, std::multiplies<std::int64_t>());
      case 3:
        return combine(minimum({a.size, b.size}), [](std::int64_t x, std::int64_t y) { return std::min(x, y); });
      case 4:
        return combine(maximum({a.size, b.size}), [](std::int64_t x, std::int64_t y) { return std::max(x, y); });
      default:
        break;
    }
    const bool quotient = below(2) == 0;
    return {quotient ? floor_div(a.size, b.size) : modulo(a.size, b.size),
            [a, b, quotient](const Numbers& numbers) -> std::optional<std::int64_t> {
              const auto x = a.number(numbers), y = b.number(numbers);
              if (!x || !y || *y == 0) return std::nullopt;
              return quotient ? floor_divide(*x, *y) : *x - *y * floor_divide(*x, *y);
            }};
  }

 private:
  std::mt19937 random_;
};

TEST(Size, HasTheValueOfItsExpression) {
  Generator generator(1);
  int compared = 0;
  for (int i = 0; i < 20000; ++i) {
    const Random random = generator.expression(4, false);
    if (!random.size.is_known()) continue;
    for (int run = 0; run < 5; ++run) {
      const Numbers numbers = generator.numbers();
      const auto expected = random.number(numbers);
      if (!expected) continue;  // divides by 0
      const auto value = value_of(
          random.size, [&](SymbolId id) { return std::optional(numbers[static_cast<std::size_t>(id.number())]); });
      if (!value) continue;  // a division by 0 that simplification did not cancel
      ASSERT_EQ(*value, *expected) << text(random.size);
      EXPECT_TRUE(range_of(random.size, any_length).holds(*expected)) << text(random.size);
      ++compared;
    }
  }
  EXPECT_GT(compared, 50000);
}

// Polynomials in three symbols with degree 16 or less are equal if their values are equal at many random points.
TEST(Size, EqualPolynomialsHaveEqualText) {
  Generator generator(2);
  int equal_count = 0;
  for (int i = 0; i < 20000; ++i) {
    const Random a = generator.expression(3, true), b = generator.expression(3, true);
    bool is_equal = true;
    for (int run = 0; run < 60 && is_equal; ++run) {
      const Numbers numbers = generator.numbers();
      is_equal = a.number(numbers) == b.number(numbers);
    }
    EXPECT_EQ(certainly_equal(a.size, b.size), is_equal) << text(a.size) << " | " << text(b.size);
    EXPECT_TRUE(!is_equal || text(a.size) == text(b.size));
    EXPECT_FALSE(is_equal && certainly_different(a.size, b.size, any_length));
    equal_count += is_equal ? 1 : 0;
  }
  EXPECT_GT(equal_count, 100);
}

TEST(Size, TextRoundTrips) {
  Generator generator(3);
  for (int i = 0; i < 20000; ++i) {
    const Size size = generator.expression(4, false).size;
    if (!size.is_known()) continue;
    ASSERT_EQ(read(text(size)), size) << text(size);
  }
}

TEST(Size, ObeysTheLawsOfArithmetic) {
  Generator generator(4);
  for (int i = 0; i < 5000; ++i) {
    const Size a = generator.expression(2, false).size, b = generator.expression(2, false).size,
               c = generator.expression(2, false).size;
    EXPECT_EQ(a + b, b + a);
    EXPECT_EQ(a * b, b * a);
    EXPECT_EQ((a + b) + c, a + (b + c));
    if (!(a * (b + c)).is_known()) continue;
    EXPECT_EQ(a - a, Size(0));
    EXPECT_EQ(a * (b + c), a * b + a * c);
    EXPECT_EQ(a<b, b> a);
  }
}

TEST(Size, DivisionsAreSimplified) {
  EXPECT_EQ(text(floor_div(s0 * 4 + 6, 2)), "2*s0 + 3");
  EXPECT_EQ(text(floor_div(s0 * 2 + 1, 2)), "s0");
  EXPECT_EQ(text(floor_div(s0 * 2 + 3, 4)), "((s0 + 1)//2)");
  EXPECT_EQ(text(floor_div(floor_div(s0, 2), 3)), "(s0//6)");
  EXPECT_EQ(text(floor_div(s0 - 3, 2)), "((s0 + 1)//2) - 2");
  EXPECT_EQ(floor_div(s0 - 3, 2) + 1, floor_div(s0 - 1, 2));
  EXPECT_EQ(floor_div(s0 * s1, s1), s0);
  EXPECT_EQ(floor_div(s0 * s1 * 4, s1 * 8), floor_div(s0, 2));
  EXPECT_EQ(floor_div(s0 * s1 + s0, s1 + 1), s0);
  EXPECT_EQ(floor_div(s0, -1), Size(0) - s0);
  EXPECT_EQ(floor_div(-7, 2), Size(-4));
  EXPECT_EQ(modulo(s0 * 6 + 5, 3), Size(2));
  EXPECT_EQ(modulo(-7, 2), Size(1));
  EXPECT_FALSE(floor_div(s0, 0).is_known());
}

TEST(Size, ExtremesThatDifferByAConstantAreSimplified) {
  EXPECT_EQ(maximum({s0, s0 + 1}), s0 + 1);
  EXPECT_EQ(minimum({s0, s0 + 1, s1}), minimum({s1, s0}));
  EXPECT_EQ(maximum({maximum({s0, 3}), 5}), maximum({5, s0}));
  EXPECT_EQ(maximum({s0}), s0);
}

TEST(Size, AnswersQueries) {
  EXPECT_TRUE(certainly_different(s0 + 1, s0, any_length));
  EXPECT_TRUE(certainly_different(s0 * 2, s1 * 2 + 1, any_length));
  EXPECT_FALSE(certainly_different(s0, s1, any_length));
  EXPECT_FALSE(certainly_equal(Size::unknown(), Size::unknown()));
  EXPECT_TRUE(may_be(s0, 0, any_length));
  EXPECT_FALSE(may_be(s0 + 1, 0, any_length));
  EXPECT_TRUE(may_be(s0 + 1, 1, any_length));
  EXPECT_FALSE(may_be(s0 * 2, 1, any_length));
  EXPECT_FALSE(may_be(s0, 1, [](SymbolId) { return SizeRange{2, 5}; }));
  EXPECT_FALSE(may_be(floor_div(s0, 2), 3, [](SymbolId) { return SizeRange{2, 5}; }));
  EXPECT_TRUE(may_be(Size::unknown(), 1, any_length));
  EXPECT_EQ(s0.single_symbol(), std::optional(SymbolId(0)));
  EXPECT_FALSE((s0 * 2).single_symbol());
  EXPECT_EQ(floor_div(s2 + s0, 2).symbols(), (std::vector{SymbolId(0), SymbolId(2)}));
  EXPECT_EQ((s0 * 2 + 1).with([](SymbolId) { return s1 + 3; }), s1 * 2 + 7);
}

TEST(Size, SizesBeyond64BitsAreUnknown) {
  const std::int64_t highest = std::numeric_limits<std::int64_t>::max(),
                     lowest = std::numeric_limits<std::int64_t>::min();
  for (const Size& size : {Size(highest) + 1, s0 * highest + s0 * highest, s0 * highest * 2, floor_div(s0, lowest),
                           Size(-1) * Size(lowest), read("9223372036854775808"), s0 + Size::unknown()}) {
    EXPECT_FALSE(size.is_known());
  }
  Size power = s0;
  for (int i = 0; i < 40; ++i) power = power * power;
  EXPECT_FALSE(power.is_known());
  Size nested = s0;
  for (int i = 0; i < 200; ++i) nested = floor_div(nested + s1, s2);
  EXPECT_FALSE(nested.is_known());
}

TEST(SizeText, ParsesBothFormsOfSympy) {
  const auto symbol = [](const char* name) {
    return "Symbol('" + std::string(name) + "', positive=True, integer=True)";
  };
  EXPECT_EQ(read("Mul(Integer(2), " + symbol("s0") + ")"), s0 * 2);
  EXPECT_EQ(read("Add(FloorDiv(Add(" + symbol("s0") + ", Integer(-3)), Integer(2)), Integer(1))"),
            floor_div(s0 - 3, 2) + 1);
  EXPECT_EQ(read("Pow(" + symbol("s0") + ", Integer(2))"), s0 * s0);
  EXPECT_EQ(read("Max(Integer(1), Min(" + symbol("s0") + ", " + symbol("s1") + "))"), maximum({1, minimum({s0, s1})}));
  EXPECT_EQ(read("CleanDiv(" + symbol("s0") + ", Integer(4))"), read("s0//4"));
  EXPECT_EQ(read("PythonMod(s0, 3)"), read("s0 - 3*(s0//3)"));
  EXPECT_EQ(read("Mod(s0, 3)"), read("s0 % 3"));
  EXPECT_EQ(read("s0**2*s1 - s0"), s0 * s0 * s1 - s0);
  EXPECT_EQ(read("-s0 - -2"), Size(2) - s0);
  EXPECT_EQ(read("2*(s0 + 1)"), s0 * 2 + 2);
  for (const char* invalid :
       {"", "2*", "s0 s1", "(s0", "Mul(", "Symbol('s0'", "other", "s0 == 1", "'s0'", "Add()", "f()"}) {
    EXPECT_FALSE(read_size(invalid, named)) << invalid;
  }
  EXPECT_FALSE(read_size(std::string(1000, '('), named));
  EXPECT_FALSE(read_size(std::string(1000, '-') + "1", named));
}

// Sizes that are computed in floating point have values, but are not simplified.
TEST(SizeText, ParsesFloatingPoint) {
  const auto at = [](std::int64_t number) { return [number](SymbolId) { return std::optional(number); }; };
  const Size half = read("TruncToInt(Mul(Float('0.5', precision=53), ToFloat(Symbol('s0', integer=True))))");
  EXPECT_EQ(half, read("math.trunc(0.5*torch.sym_float(s0))"));
  EXPECT_EQ(value_of(half, at(9)), 4);
  EXPECT_EQ(value_of(read("math.trunc(torch.sym_float(s0) ** 0.5)"), at(17)), 4);
  EXPECT_EQ(value_of(read("mystery(s0)"), at(17)), std::nullopt);
  EXPECT_EQ(text(read("mystery(s0 + 1)")), "mystery(s0 + 1)");
}

// Each size contains the previous size several times, so visiting all occurrences would take forever.
TEST(Size, NestedSizesAreBounded) {
  Size nested = s0;
  for (int i = 0; i < 60; ++i) {
    const Size outer = maximum({0, minimum({nested, s1 + i}) - 1});
    EXPECT_TRUE(!outer.is_known() || range_of(outer, any_length).min == 0);
    EXPECT_TRUE(!outer.is_known() || value_of(outer, [](SymbolId) { return std::optional<std::int64_t>(100); }) >= 0);
    nested = outer.is_known() ? outer : s0;
  }
  Size doubled = s0;
  for (int i = 0; i < 60; ++i) doubled = minimum({floor_div(doubled + s1, 3), maximum({doubled, s1}) - i});
  EXPECT_FALSE(doubled.is_known());
}

TEST(SizeText, ParsesGuards) {
  const auto axes = [](const std::string& path) -> std::optional<Size> {
    if (path == "L['x'][0].size()[1]") return s0;
    return path == "L['y'].size()[0]" ? std::optional(s1) : std::nullopt;
  };
  const auto guards = [&](const std::string& text) { return read_constraints(text, axes).value(); };
  EXPECT_EQ(guards("((3 + L['x'][0].size()[1]) // 4) == 2"),
            (std::vector<Constraint>{{{{floor_div(s0 + 3, 4), Relation::equal, 2}}}}));
  EXPECT_EQ(guards("2 <= L['y'].size()[0] < 9").size(), 2U);
  EXPECT_EQ(guards("Eq(L['y'].size()[0], 4)"), guards("L['y'].size()[0] == 4"));
  EXPECT_EQ(guards("not (L['y'].size()[0] == 4 or L['y'].size()[0] > 8)"),
            guards("L['y'].size()[0] != 4 and L['y'].size()[0] <= 8"));
  EXPECT_FALSE(read_constraints("L['z'].size()[0] == 4", axes));
  EXPECT_FALSE(read_constraints("L['y'].size()[0]", axes));

  const auto at = [](std::int64_t x, std::int64_t y) {
    return [x, y](SymbolId id) { return std::optional(id == SymbolId(0) ? x : y); };
  };
  const Constraint constraint = guards("L['x'][0].size()[1] > 5 or L['x'][0].size()[1] == L['y'].size()[0]").front();
  EXPECT_EQ(holds(constraint, at(6, 1)), true);
  EXPECT_EQ(holds(constraint, at(3, 3)), true);
  EXPECT_EQ(holds(constraint, at(3, 4)), false);
  EXPECT_EQ(holds(constraint, [](SymbolId) { return std::nullopt; }), std::nullopt);
  EXPECT_EQ(text_of(constraint, name_of), "s0 > 5 or s0 == s1");
}

}  // namespace
}  // namespace whence
