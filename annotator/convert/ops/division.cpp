// Division, remainders and shifts: operators whose results depend on rounding and signs.
#include "annotator/convert/ops/division.h"

#include "annotator/convert/broadcast.h"
#include "annotator/convert/narrow_constants.h"
#include "annotator/convert/nonnegative.h"
#include "annotator/convert/ops/elementwise.h"
#include "annotator/convert/ops/families.h"

namespace whence::convert {

namespace {

// Returns true if a floating remainder and the divisor have opposite signs; false if the remainder is 0 or NaN.
Val opposite_signs(Ctx& c, Val rest, Val y, DType dtype) {
  return c.emit("Less", {c.emit("Mul", {c.emit("Sign", {rest}), y}), c.constant_number(0, dtype)});
}

// Follows c10::div_floor_floating (c10/util/generic_math.h, PyTorch 2.13): subtracts the exact remainder and then
// divides, so that 1 // 0.1 is 9, infinity // 2 is NaN and -5 // infinity is -1.
Val floor_quotient_of_floats(Ctx& c, Val x, Val y, DType dtype) {
  const Val rest = c.emit("Mod", {x, y}, {{"fmod", 1}});
  const Val rounded = c.emit("Round", {c.emit("Div", {c.emit("Sub", {x, rest}), y})});
  const Val less = c.emit("Sub", {rounded, c.constant_number(1, dtype)});
  const Val quotient = c.emit("Where", {opposite_signs(c, rest, y, dtype), less, rounded});
  const TensorData* divisor = c.constant(y);
  if (divisor != nullptr && program::single_number(*divisor).value_or(0) != 0) return quotient;
  return c.emit("Where", {c.emit("Equal", {y, c.constant_number(0, dtype)}), c.emit("Div", {x, y}), quotient});
}

}  // namespace

Val truncated(Ctx& c, Val x) { return c.emit("Mul", {c.emit("Sign", {x}), c.emit("Floor", {c.emit("Abs", {x})})}); }

// Integer Mod has the sign of y, so x - Mod(x, y) is the multiple of y at or below x / y and divides exactly.
Val floor_quotient(Ctx& c, Val x, Val y, DType dtype) {
  if (is_floating(dtype)) return floor_quotient_of_floats(c, x, y, dtype);
  if (never_negative(c, x) && never_negative(c, y)) return c.emit("Div", {x, y});
  return c.emit("Div", {c.emit("Sub", {x, c.emit("Mod", {x, y})}), y});
}

// For floating operands ONNX has only the C form of Mod. Its result is exact; y is added where the signs differ.
Val floor_remainder(Ctx& c, Val x, Val y, DType dtype) {
  if (!is_floating(dtype)) return c.emit("Mod", {x, y});
  const Val rest = c.emit("Mod", {x, y}, {{"fmod", 1}});
  return c.emit("Where", {opposite_signs(c, rest, y, dtype), c.emit("Add", {rest, y}), rest});
}

namespace {

struct Operands {
  Val x, y;
  DType dtype;  // dtype of the computation
};

// Both operands in the dtype of the computation: the result's, or a wider one for narrow integers and for float16 with
// a number. yield() casts back.
Operands operands(Ctx& c, std::string_view x, std::string_view y) {
  const DType result = c.output_dtype();
  const DType dtype = dtype_for_numbers(c, arithmetic_dtype(result), c.tensor(x), c.tensor(y));
  // A number wraps around before the division: -3 is 253 in uint8.
  const auto operand = [&](std::string_view name) {
    const Val value = c.tensor(name);
    return c.cast(is_integral(result) && dtype != result ? c.cast(value, result) : value, dtype);
  };
  return {operand(x), operand(y), dtype};
}

// Rounds towards zero. x and y have the same dtype, which is also that of the result.
Val truncated_quotient(Ctx& c, Val x, Val y, DType dtype) {
  const Val quotient = c.emit("Div", {x, y});
  return is_floating(dtype) ? truncated(c, quotient) : quotient;
}

// True division: integers are first cast to the floating dtype of the result.
void div(Ctx& c) {
  const Operands o = operands(c, "self", "other");
  c.yield(c.emit("Div", {o.x, o.y}));
}

// rounding_mode None: true division; "trunc": towards zero; "floor": towards minus infinity.
void div_mode(Ctx& c) {
  if (!c.has("rounding_mode")) return div(c);
  const Operands o = operands(c, "self", "other");
  const bool floors = c.one_of("rounding_mode", {"floor", "trunc"}) == "floor";
  c.yield(floors ? floor_quotient(c, o.x, o.y, o.dtype) : truncated_quotient(c, o.x, o.y, o.dtype));
}

void floor_divide(Ctx& c) {
  const Operands o = operands(c, "self", "other");
  c.yield(floor_quotient(c, o.x, o.y, o.dtype));
}

void remainder(Ctx& c) {
  const Operands o = operands(c, "self", "other");
  c.yield(floor_remainder(c, o.x, o.y, o.dtype));
}

// The remainder with the sign of self, as in C.
void fmod(Ctx& c) {
  const Operands o = operands(c, "self", "other");
  c.yield(c.emit("Mod", {o.x, o.y}, {{"fmod", 1}}));
}

// 2^n for a count n of bits.
Val power_of_two(Ctx& c, Val bits, DType dtype) { return c.emit("Pow", {c.constant_number(2, dtype), bits}); }

// Shifts of signed integers, which ONNX BitShift does not accept: a left shift multiplies, a right shift divides and
// rounds towards minus infinity.
void shift_left(Ctx& c) {
  const Operands o = operands(c, "self", "other");
  c.yield(c.emit("Mul", {o.x, power_of_two(c, o.y, o.dtype)}));
}

void shift_right(Ctx& c) {
  const Operands o = operands(c, "self", "other");
  c.yield(floor_quotient(c, o.x, power_of_two(c, o.y, o.dtype), o.dtype));
}

// Returns how many rounds of Euclid's algorithm suffice for this dtype: consecutive Fibonacci numbers need the most.
std::int64_t rounds_for(DType dtype) {
  return static_cast<std::int64_t>(1.4405 * 8 * static_cast<double>(size_of(dtype))) + 2;
}

// The greatest common divisor of the absolute values, int64; gcd(0, b) is |b|. Each round replaces (a, b) with (b, a
// mod b), and changes nothing once b is 0.
Val common_divisor(Ctx& c, Val x, Val y) {
  const auto dims = c.output_dims() ? std::optional<std::vector<Dim>>(*c.output_dims()) : std::nullopt;
  const auto start = [&](Val value, Val other) { return c.typed(broadcast(c, value, {other}), DType::int64, dims); };
  const auto step = [&](Val, const std::vector<Val>& carried) -> std::vector<Val> {
    const Val a = carried[0], b = carried[1];
    const Val done = c.emit("Equal", {b, c.constant_number(0, DType::int64)});
    const Val divisor = c.emit("Where", {done, c.constant_number(1, DType::int64), b});
    return {c.typed(c.emit("Where", {done, a, b}), DType::int64, dims),
            c.typed(c.emit("Mod", {a, divisor}), DType::int64, dims)};
  };
  return c.loop(c.constant_int(rounds_for(c.output_dtype())), {start(x, y), start(y, x)}, step).front();
}

// |self| and |other| in int64, for any integer dtype.
std::pair<Val, Val> absolute_integers(Ctx& c) {
  const auto absolute = [&](std::string_view name) {
    const Val value = c.cast(c.tensor(name), DType::int64);
    return c.typed(c.emit("Abs", {value}), DType::int64, c.dims(value));
  };
  return {absolute("self"), absolute("other")};
}

void gcd(Ctx& c) {
  const auto [x, y] = absolute_integers(c);
  c.yield(common_divisor(c, x, y));
}

// 0 where one of the two is 0.
void lcm(Ctx& c) {
  const auto [x, y] = absolute_integers(c);
  const Val divisor = c.emit("Max", {common_divisor(c, x, y), c.constant_number(1, DType::int64)});
  c.yield(c.emit("Mul", {c.emit("Div", {x, divisor}), y}));
}

const OpEntry kDivision[] = {
    {"aten::__lshift__.Scalar(Tensor self, Scalar other) -> Tensor", shift_left},
    {"aten::__lshift__.Tensor(Tensor self, Tensor other) -> Tensor", shift_left},
    {"aten::__rshift__.Scalar(Tensor self, Scalar other) -> Tensor", shift_right},
    {"aten::__rshift__.Tensor(Tensor self, Tensor other) -> Tensor", shift_right},
    {"aten::bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", shift_left},
    {"aten::bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor", shift_left},
    {"aten::bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor", shift_left},
    {"aten::bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", shift_right},
    {"aten::bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor", shift_right},
    {"aten::bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor", shift_right},
    {"aten::div.Scalar(Tensor self, Scalar other) -> Tensor", div},
    {"aten::div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor", div_mode},
    {"aten::div.Tensor(Tensor self, Tensor other) -> Tensor", div},
    {"aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor", div_mode},
    {"aten::floor_divide(Tensor self, Tensor other) -> Tensor", floor_divide},
    {"aten::floor_divide.Scalar(Tensor self, Scalar other) -> Tensor", floor_divide},
    {"aten::fmod.Scalar(Tensor self, Scalar other) -> Tensor", fmod},
    {"aten::fmod.Tensor(Tensor self, Tensor other) -> Tensor", fmod},
    {"aten::gcd(Tensor self, Tensor other) -> Tensor", gcd},
    {"aten::lcm(Tensor self, Tensor other) -> Tensor", lcm},
    {"aten::remainder.Scalar(Tensor self, Scalar other) -> Tensor", remainder},
    {"aten::remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", remainder},
    {"aten::remainder.Tensor(Tensor self, Tensor other) -> Tensor", remainder},
};

}  // namespace

OpFamily division_ops() { return kDivision; }

}  // namespace whence::convert
