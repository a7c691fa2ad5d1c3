// Elementwise functions of one, two or three operands: arithmetic, comparison, logic, casts, clipping.
#include <cmath>
#include <string_view>

#include "annotator/simplify/evaluate/operators.h"

namespace whence::simplify {

namespace {

using Int = std::int64_t;
using Unsigned = std::uint64_t;

template <class Number>
struct Unary {
  std::string_view op_type;
  Number (*function)(Number);
};

template <class Number>
struct Binary {
  std::string_view op_type;
  Number (*function)(Number, Number);
};

template <class Entry, std::size_t N>
const Entry* find(const Entry (&table)[N], std::string_view op_type) {
  for (const Entry& entry : table) {
    if (entry.op_type == op_type) return &entry;
  }
  return nullptr;
}

double sign(double x) { return std::isnan(x) ? x : static_cast<double>((x > 0) - (x < 0)); }

constexpr Unary<double> floating_unary[] = {
    {"Abs", [](double x) { return std::fabs(x); }},
    {"Acos", [](double x) { return std::acos(x); }},
    {"Acosh", [](double x) { return std::acosh(x); }},
    {"Asin", [](double x) { return std::asin(x); }},
    {"Asinh", [](double x) { return std::asinh(x); }},
    {"Atan", [](double x) { return std::atan(x); }},
    {"Atanh", [](double x) { return std::atanh(x); }},
    {"Ceil", [](double x) { return std::ceil(x); }},
    {"Cos", [](double x) { return std::cos(x); }},
    {"Cosh", [](double x) { return std::cosh(x); }},
    {"Erf", [](double x) { return std::erf(x); }},
    {"Exp", [](double x) { return std::exp(x); }},
    {"Floor", [](double x) { return std::floor(x); }},
    {"IsNaN", [](double x) { return std::isnan(x) ? 1.0 : 0.0; }},
    {"Log", [](double x) { return std::log(x); }},
    {"Neg", [](double x) { return -x; }},
    {"Reciprocal", [](double x) { return 1 / x; }},
    {"Relu", [](double x) { return x < 0 ? 0.0 : x; }},
    {"Round", [](double x) { return std::nearbyint(x); }},  // ties to even, the default rounding mode
    {"Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"Sign", sign},
    {"Sin", [](double x) { return std::sin(x); }},
    {"Sinh", [](double x) { return std::sinh(x); }},
    {"Softplus", [](double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }},
    {"Sqrt", [](double x) { return std::sqrt(x); }},
    {"Tan", [](double x) { return std::tan(x); }},
    {"Tanh", [](double x) { return std::tanh(x); }},
};

Int negated(Int x) { return static_cast<Int>(-static_cast<Unsigned>(x)); }

constexpr Unary<Int> integer_unary[] = {
    {"Abs", [](Int x) { return x < 0 ? negated(x) : x; }},
    {"Neg", negated},
    {"Not", [](Int x) { return Int{x == 0}; }},
    {"Relu", [](Int x) { return std::max<Int>(x, 0); }},
    {"Sign", [](Int x) { return Int{x > 0} - Int{x < 0}; }},
};

// Return NaN if either operand is NaN.
double smaller(double a, double b) { return std::isnan(a) || a < b ? a : b; }
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

constexpr Binary<double> floating_binary[] = {
    {"Add", [](double a, double b) { return a + b; }},
    {"Div", [](double a, double b) { return a / b; }},
    {"Equal", [](double a, double b) { return a == b ? 1.0 : 0.0; }},
    {"Greater", [](double a, double b) { return a > b ? 1.0 : 0.0; }},
    {"GreaterOrEqual", [](double a, double b) { return a >= b ? 1.0 : 0.0; }},
    {"Less", [](double a, double b) { return a < b ? 1.0 : 0.0; }},
    {"LessOrEqual", [](double a, double b) { return a <= b ? 1.0 : 0.0; }},
    {"Max", larger},
    {"Min", smaller},
    {"Mod", [](double a, double b) { return std::fmod(a, b); }},  // the only mode that ONNX defines for floating dtypes
    {"Mul", [](double a, double b) { return a * b; }},
    {"Pow", [](double a, double b) { return std::pow(a, b); }},
    {"Sub", [](double a, double b) { return a - b; }},
};

Int quotient(Int a, Int b) {
  return b == -1 ? negated(a) : a / b;
}  // truncates toward zero, as ONNX defines for integers

Int remainder(Int a, Int b) {  // with the sign of b
  if (b == -1) return 0;
  const Int rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

constexpr Binary<Int> integer_binary[] = {
    {"Add", [](Int a, Int b) { return static_cast<Int>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)); }},
    {"And", [](Int a, Int b) { return a & b; }},
    {"Div", quotient},
    {"Equal", [](Int a, Int b) { return Int{a == b}; }},
    {"Greater", [](Int a, Int b) { return Int{a > b}; }},
    {"GreaterOrEqual", [](Int a, Int b) { return Int{a >= b}; }},
    {"Less", [](Int a, Int b) { return Int{a < b}; }},
    {"LessOrEqual", [](Int a, Int b) { return Int{a <= b}; }},
    {"Max", [](Int a, Int b) { return std::max(a, b); }},
    {"Min", [](Int a, Int b) { return std::min(a, b); }},
    {"Mod", remainder},
    {"Mul", [](Int a, Int b) { return static_cast<Int>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b)); }},
    {"Or", [](Int a, Int b) { return a | b; }},
    {"Sub", [](Int a, Int b) { return static_cast<Int>(static_cast<Unsigned>(a) - static_cast<Unsigned>(b)); }},
    {"Xor", [](Int a, Int b) { return a ^ b; }},
};

bool yields_bool(std::string_view op_type) {
  return op_type == "Equal" || op_type == "IsNaN" || op_type.starts_with("Less") || op_type.starts_with("Greater");
}

template <class Number>
std::vector<Number> spread(const TensorData& data, const Sizes& shape) {
  std::vector<Number> numbers = numbers_of<Number>(data);
  if (data.shape == shape) return numbers;
  std::vector<Number> result;
  result.reserve(static_cast<std::size_t>(count_of(shape)));
  for_each_offset(shape, broadcast_strides(data.shape, shape), 0,
                  [&](std::int64_t offset) { result.push_back(numbers[static_cast<std::size_t>(offset)]); });
  return result;
}

template <class Number, std::size_t N>
std::optional<TensorData> unary(const Evaluation& e, const Unary<Number> (&table)[N]) {
  const Unary<Number>* entry = find(table, e.node.op_type);
  const TensorData& x = e.input(0);
  const DType dtype = yields_bool(e.node.op_type) ? DType::boolean : x.dtype;
  if (entry == nullptr || !e.fits(dtype, x.shape)) return std::nullopt;
  std::vector<Number> numbers = numbers_of<Number>(x);
  for (Number& number : numbers) number = entry->function(number);
  return tensor_of(dtype, x.shape, numbers);
}

// Applies a binary function with broadcasting. Max and Min apply it to one operand after the other.
template <class Number, std::size_t N>
std::optional<TensorData> binary(const Evaluation& e, std::string_view op_type, const TensorData& a,
                                 const TensorData& b, const Binary<Number> (&table)[N]) {
  const Binary<Number>* entry = find(table, op_type);
  const auto shape = broadcast(a.shape, b.shape);
  const DType dtype = yields_bool(op_type) ? DType::boolean : a.dtype;
  if (entry == nullptr || !shape || !e.fits(dtype, *shape)) return std::nullopt;
  std::vector<Number> result = spread<Number>(a, *shape);
  const std::vector<Number> right = spread<Number>(b, *shape);
  if constexpr (std::is_same_v<Number, Int>) {
    const bool divides = op_type == "Div" || op_type == "Mod";
    if (divides && std::ranges::find(right, 0) != right.end()) return std::nullopt;
  }
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = entry->function(result[i], right[i]);
  return tensor_of(dtype, *shape, result);
}

std::optional<TensorData> pair(const Evaluation& e, std::string_view op_type, const TensorData& a,
                               const TensorData& b) {
  // Only Pow takes two dtypes; its result has the dtype of the base.
  if (a.dtype != b.dtype && op_type != "Pow") return std::nullopt;
  const bool exponent_known = has_floating_form(b.dtype) || has_integer_form(b.dtype);
  if (has_floating_form(a.dtype) && exponent_known) return binary(e, op_type, a, b, floating_binary);
  const bool truncates = op_type == "Mod" && e.node.int_attribute("fmod", 0) != 0;
  if (has_integer_form(a.dtype) && has_integer_form(b.dtype) && !truncates)
    return binary(e, op_type, a, b, integer_binary);
  return std::nullopt;
}

}  // namespace

bool is_unary(std::string_view op_type) {
  return find(floating_unary, op_type) != nullptr || find(integer_unary, op_type) != nullptr;
}

bool is_binary(std::string_view op_type) {
  return find(floating_binary, op_type) != nullptr || find(integer_binary, op_type) != nullptr;
}

std::optional<TensorData> evaluate_unary(const Evaluation& e) {
  if (has_floating_form(e.input(0).dtype)) return unary(e, floating_unary);
  return has_integer_form(e.input(0).dtype) ? unary(e, integer_unary) : std::nullopt;
}

std::optional<TensorData> evaluate_binary(const Evaluation& e) {
  std::optional<TensorData> result = pair(e, e.node.op_type, e.input(0), e.input(1));
  for (std::size_t i = 2; result && i < e.inputs.size(); ++i) result = pair(e, e.node.op_type, *result, e.input(i));
  return result;
}

// Applies max(low), then min(high), like PyTorch if low > high.
std::optional<TensorData> evaluate_clip(const Evaluation& e) {
  // Opset 6 stores the bounds in attributes: left to the runtime.
  if (!e.node.attributes.empty()) return std::nullopt;
  std::optional<TensorData> result = e.input(0);
  if (e.has(1)) result = pair(e, "Max", *result, e.input(1));
  if (e.has(2) && result) result = pair(e, "Min", *result, e.input(2));
  return result;
}

std::optional<TensorData> evaluate_cast(const Evaluation& e) {
  const DType to = from_onnx(static_cast<int>(e.node.int_attribute("to", 0)));
  if (!e.fits(to, e.input(0).shape)) return std::nullopt;
  return program::cast_tensor(e.input(0), to);
}

}  // namespace whence::simplify
