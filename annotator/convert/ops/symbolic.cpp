// Arithmetic and comparisons of Python numbers: scripted code computes with sizes and with results of .item(). Numbers
// are 0-d values: int64, float64, bool. Numbers that depend on no input arrive as constants.
#include <limits>

#include "annotator/convert/ops/division.h"
#include "annotator/convert/ops/elementwise.h"
#include "annotator/convert/ops/families.h"

namespace whence::convert {
namespace {

// Casts an argument to the type of the result.
Val as_result(Ctx& c, const char* argument) { return c.scalar(argument, c.output_dtype()); }

template <OpName op>
void combine(Ctx& c) {
  c.yield(c.emit(op.text, {as_result(c, "a"), as_result(c, "b")}));
}

// The extreme of a list: Python's min(list), and the number of iterations of zip and enumerate.
template <OpName op, std::int64_t neutral>
void extreme(Ctx& c) {
  std::vector<Val> numbers;
  for (const Size& size : c.sizes("self")) {
    if (c.static_size(size) != neutral) numbers.push_back(c.to_scalar_value(size));
  }
  c.yield(numbers.empty() ? c.constant_int(neutral) : numbers.size() == 1 ? numbers[0] : c.emit(op.text, numbers));
}
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min(),
                       kMost = std::numeric_limits<std::int64_t>::max();

// The number of steps of range(lo, hi, step): (hi - lo) / step rounded up, but at least 0.
void range_length(Ctx& c) {
  const auto number = [&](const char* name) { return c.scalar(name, DType::int64); };
  const auto two = [&](const char* op, Val a, Val b) {
    return c.typed(c.emit(op, {a, b}), DType::int64, std::vector<Dim>());
  };
  const Val negative = two("Sub", number("lo"), number("hi"));
  const Val rounded_down = floor_quotient(c, negative, number("step"), DType::int64);
  c.yield(two("Max", two("Sub", c.constant_int(0), rounded_down), c.constant_int(0)));
}

// The current number of a range: start + index * step.
void derive_index(Ctx& c) {
  const Val steps = c.typed(c.emit("Mul", {c.scalar("index", DType::int64), c.scalar("step", DType::int64)}),
                            DType::int64, std::vector<Dim>());
  c.yield(c.emit("Add", {c.scalar("start", DType::int64), steps}));
}

void floordiv(Ctx& c) { c.yield(floor_quotient(c, as_result(c, "a"), as_result(c, "b"), c.output_dtype())); }
void remainder(Ctx& c) { c.yield(floor_remainder(c, as_result(c, "a"), as_result(c, "b"), c.output_dtype())); }

template <OpName op>
void apply(Ctx& c) {
  c.yield(c.emit(op.text, {as_result(c, "a")}));
}

// Rounds to an integer, which is an int in Python; yield() casts.
template <OpName op>
void round_to(Ctx& c) {
  const Val x = c.tensor("a");
  c.yield(is_floating(c.dtype(x)) ? c.emit(op.text, {x}) : x);
}

// Mixed operands are compared as float64.
Val compare(Ctx& c, const char* op) {
  const Val a = c.tensor("a"), b = c.tensor("b");
  const DType common = promote(c.dtype(a), c.dtype(b));
  return c.emit(op, {c.cast(a, common), c.cast(b, common)});
}
template <OpName op>
void comparison(Ctx& c) {
  c.yield(compare(c, op.text));
}
void not_equal(Ctx& c) { c.yield(c.emit("Not", {compare(c, "Equal")})); }

// Compares lists of numbers, such as shapes: false if their lengths differ, or two numbers that are known.
Val equal_lists(Ctx& c) {
  const std::vector<Size> a = c.sizes("a"), b = c.sizes("b");
  const auto truth = [&](bool value) { return c.constant_number(value ? 1 : 0, DType::boolean); };
  if (a.size() != b.size()) return truth(false);
  Val all = absent;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto left = c.static_size(a[i]), right = c.static_size(b[i]);
    if (left && right && *left != *right) return truth(false);
    if (left && right) continue;
    const Val same = c.emit("Equal", {c.to_scalar_value(a[i]), c.to_scalar_value(b[i])});
    all = all ? c.emit("And", {all, same}) : same;
  }
  return all ? all : truth(true);
}
void lists_are_equal(Ctx& c) { c.yield(equal_lists(c)); }
void lists_differ(Ctx& c) { c.yield(c.emit("Not", {equal_lists(c)})); }

void negate(Ctx& c) { c.yield(c.emit("Not", {c.tensor("self")})); }

// The elements of a vector as Python numbers: x.tolist() in a script.
void tolist(Ctx& c) {
  const Val x = c.tensor("arg0");
  if (c.rank(x) == 0) return c.yield(x);
  if (c.rank(x) > 1)
    c.refuse("a list of lists of numbers is not supported", "take the rows apart with unbind before tolist");
  if (c.static_dim(x, 0) != std::int64_t{c.output_count()}) {
    c.refuse("a list of numbers whose length differs from run to run is not supported",
             "read the numbers from the tensor");
  }
  std::vector<Val> numbers;
  for (int i = 0; i < c.output_count(); ++i) {
    numbers.push_back(c.result_used(i) ? c.emit("Gather", {x, c.constant_int(i)}, {{"axis", 0}}) : absent);
  }
  c.yield(numbers);
}

const OpEntry kSymbolic[] = {
    {"aten::__and__.bool(bool a, bool b) -> bool", combine<"And">},
    {"aten::__not__(bool self) -> bool", negate},
    {"aten::__or__.bool(bool a, bool b) -> bool", combine<"Or">},
    {"aten::__xor__.bool(bool a, bool b) -> bool", combine<"Xor">},
    {"aten::__derive_index(int index, int start, int step) -> int", derive_index},
    {"aten::__range_length(int lo, int hi, int step) -> int", range_length},
    {"aten::add(Scalar a, Scalar b) -> Scalar", combine<"Add">},
    {"aten::add.float(float a, float b) -> float", combine<"Add">},
    {"aten::add.float_int(float a, int b) -> float", combine<"Add">},
    {"aten::add.int(int a, int b) -> int", combine<"Add">},
    {"aten::add.int_float(int a, float b) -> float", combine<"Add">},
    {"aten::ceil.Scalar(Scalar a) -> Scalar", round_to<"Ceil">},
    {"aten::ceil.float(float a) -> int", round_to<"Ceil">},
    {"aten::ceil.int(int a) -> int", round_to<"Ceil">},
    {"aten::div(Scalar a, Scalar b) -> float", combine<"Div">},
    {"aten::div.float(float a, float b) -> float", combine<"Div">},
    {"aten::div.int(int a, int b) -> float", combine<"Div">},
    {"aten::eq(Scalar a, Scalar b) -> bool", comparison<"Equal">},
    {"aten::eq.bool(bool a, bool b) -> bool", comparison<"Equal">},
    {"aten::eq.float(float a, float b) -> bool", comparison<"Equal">},
    {"aten::eq.float_int(float a, int b) -> bool", comparison<"Equal">},
    {"aten::eq.int(int a, int b) -> bool", comparison<"Equal">},
    {"aten::eq.int_float(int a, float b) -> bool", comparison<"Equal">},
    {"aten::eq.int_list(int[] a, int[] b) -> bool", lists_are_equal},
    {"aten::floor.Scalar(Scalar a) -> Scalar", round_to<"Floor">},
    {"aten::floor.float(float a) -> int", round_to<"Floor">},
    {"aten::floor.int(int a) -> int", round_to<"Floor">},
    {"aten::floordiv(Scalar a, Scalar b) -> Scalar", floordiv},
    {"aten::floordiv.float(float a, float b) -> float", floordiv},
    {"aten::floordiv.float_int(float a, int b) -> float", floordiv},
    {"aten::floordiv.int(int a, int b) -> int", floordiv},
    {"aten::floordiv.int_float(int a, float b) -> float", floordiv},
    {"aten::ge(Scalar a, Scalar b) -> bool", comparison<"GreaterOrEqual">},
    {"aten::ge.float(float a, float b) -> bool", comparison<"GreaterOrEqual">},
    {"aten::ge.float_int(float a, int b) -> bool", comparison<"GreaterOrEqual">},
    {"aten::ge.int(int a, int b) -> bool", comparison<"GreaterOrEqual">},
    {"aten::ge.int_float(int a, float b) -> bool", comparison<"GreaterOrEqual">},
    {"aten::gt(Scalar a, Scalar b) -> bool", comparison<"Greater">},
    {"aten::gt.float(float a, float b) -> bool", comparison<"Greater">},
    {"aten::gt.float_int(float a, int b) -> bool", comparison<"Greater">},
    {"aten::gt.int(int a, int b) -> bool", comparison<"Greater">},
    {"aten::gt.int_float(int a, float b) -> bool", comparison<"Greater">},
    {"aten::le(Scalar a, Scalar b) -> bool", comparison<"LessOrEqual">},
    {"aten::le.float(float a, float b) -> bool", comparison<"LessOrEqual">},
    {"aten::le.float_int(float a, int b) -> bool", comparison<"LessOrEqual">},
    {"aten::le.int(int a, int b) -> bool", comparison<"LessOrEqual">},
    {"aten::le.int_float(int a, float b) -> bool", comparison<"LessOrEqual">},
    {"aten::lt(Scalar a, Scalar b) -> bool", comparison<"Less">},
    {"aten::lt.float(float a, float b) -> bool", comparison<"Less">},
    {"aten::lt.float_int(float a, int b) -> bool", comparison<"Less">},
    {"aten::lt.int(int a, int b) -> bool", comparison<"Less">},
    {"aten::lt.int_float(int a, float b) -> bool", comparison<"Less">},
    {"aten::mul(Scalar a, Scalar b) -> Scalar", combine<"Mul">},
    {"aten::mul.float(float a, float b) -> float", combine<"Mul">},
    {"aten::mul.float_int(float a, int b) -> float", combine<"Mul">},
    {"aten::mul.int(int a, int b) -> int", combine<"Mul">},
    {"aten::mul.int_float(int a, float b) -> float", combine<"Mul">},
    {"aten::ne(Scalar a, Scalar b) -> bool", not_equal},
    {"aten::ne.bool(bool a, bool b) -> bool", not_equal},
    {"aten::ne.float(float a, float b) -> bool", not_equal},
    {"aten::ne.float_int(float a, int b) -> bool", not_equal},
    {"aten::ne.int(int a, int b) -> bool", not_equal},
    {"aten::ne.int_float(int a, float b) -> bool", not_equal},
    {"aten::ne.int_list(int[] a, int[] b) -> bool", lists_differ},
    {"aten::neg.Scalar(Scalar a) -> Scalar", apply<"Neg">},
    {"aten::neg.float(float a) -> float", apply<"Neg">},
    {"aten::neg.int(int a) -> int", apply<"Neg">},
    {"aten::pow.Scalar_Scalar(Scalar a, Scalar b) -> float", combine<"Pow">},
    {"aten::pow.float(float a, float b) -> float", combine<"Pow">},
    {"aten::pow.float_int(float a, int b) -> float", combine<"Pow">},
    {"aten::pow.int(int a, int b) -> float", combine<"Pow">},
    {"aten::pow.int_float(int a, float b) -> float", combine<"Pow">},
    {"aten::remainder(Scalar a, Scalar b) -> Scalar", remainder},
    {"aten::remainder.float(float a, float b) -> float", remainder},
    {"aten::remainder.float_int(float a, int b) -> float", remainder},
    {"aten::remainder.int(int a, int b) -> int", remainder},
    {"aten::remainder.int_float(int a, float b) -> float", remainder},
    {"aten::sqrt.Scalar(Scalar a) -> Scalar", apply<"Sqrt">},
    {"aten::sqrt.float(float a) -> float", apply<"Sqrt">},
    {"aten::sqrt.int(int a) -> float", apply<"Sqrt">},
    {"aten::sub(Scalar a, Scalar b) -> Scalar", combine<"Sub">},
    {"aten::sub.float(float a, float b) -> float", combine<"Sub">},
    {"aten::sub.float_int(float a, int b) -> float", combine<"Sub">},
    {"aten::sub.int(int a, int b) -> int", combine<"Sub">},
    {"aten::sub.int_float(int a, float b) -> float", combine<"Sub">},
    {"prim::tolist(Tensor arg0, int arg1, int arg2) -> Scalar[]", tolist},
    {"prim::abs.Scalar(Scalar a) -> Scalar", apply<"Abs">},
    {"prim::abs.float(float a) -> float", apply<"Abs">},
    {"prim::abs.int(int a) -> int", apply<"Abs">},
    {"prim::max(Scalar a, Scalar b) -> Scalar", combine<"Max">},
    {"prim::max.float(float a, float b) -> float", combine<"Max">},
    {"prim::max.float_int(float a, int b) -> float", combine<"Max">},
    {"prim::max.int(int a, int b) -> int", combine<"Max">},
    {"prim::max.int_float(int a, float b) -> float", combine<"Max">},
    {"prim::max.self_int(int[] self) -> int", extreme<"Max", kLeast>},
    {"prim::min(Scalar a, Scalar b) -> Scalar", combine<"Min">},
    {"prim::min.float(float a, float b) -> float", combine<"Min">},
    {"prim::min.float_int(float a, int b) -> float", combine<"Min">},
    {"prim::min.int(int a, int b) -> int", combine<"Min">},
    {"prim::min.int_float(int a, float b) -> float", combine<"Min">},
    {"prim::min.self_int(int[] self) -> int", extreme<"Min", kMost>},
};

}  // namespace

OpFamily symbolic_ops() { return kSymbolic; }

}  // namespace whence::convert
