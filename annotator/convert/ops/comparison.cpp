// Comparisons, logic and bitwise operators. Comparisons are computed in the dtype that PyTorch promotes both sides to.
#include "annotator/convert/ops/elementwise.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"

namespace whence::convert {
namespace {

// op(a, b) -> bool. Equality is defined for booleans, order is not; narrow integers are compared in 32 bits.
Val compare(Ctx& c, const char* op, Val a, Val b) {
  const auto [x, y] = c.promoted(a, b);
  DType dtype = arithmetic_dtype(c.dtype(x));
  if (dtype == DType::boolean && op != std::string_view("Equal")) dtype = DType::int32;
  return c.emit(op, {c.cast(x, dtype), c.cast(y, dtype)});
}

template <OpName op>
void comparison(Ctx& c) {
  c.yield(compare(c, op.text, c.tensor("self"), c.tensor("other")));
}

void not_equal(Ctx& c) { c.yield(c.emit("Not", {compare(c, "Equal", c.tensor("self"), c.tensor("other"))})); }

// Yields true for each of `elements` that occurs in `test_elements`; with `invert`, for each that does not.
void isin(Ctx& c) {
  const auto [elements, tests] = c.promoted(c.tensor("elements"), c.tensor("test_elements"));
  const DType dtype = arithmetic_dtype(c.dtype(elements));
  const int rank = c.rank(elements);
  const Val each = c.unsqueeze(c.cast(elements, dtype), {rank});
  const Val flat = c.rank(tests) == 1 ? c.cast(tests, dtype) : c.reshape(c.cast(tests, dtype), {std::int64_t{-1}});
  const Val equal = c.typed(c.emit("Equal", {each, flat}), DType::boolean);
  const Val hits = c.typed(c.cast(equal, DType::int32), DType::int32);
  const Val count = c.typed(reduce(c, "ReduceSum", hits, {rank}, false), DType::int32);
  const Val found = c.cast(count, DType::boolean);
  c.yield(c.flag("invert") ? c.emit("Not", {found}) : found);
}

void isin_scalar(Ctx& c) {
  const Val equal = compare(c, "Equal", c.tensor("elements"), c.tensor("test_element"));
  c.yield(c.flag("invert") ? c.emit("Not", {equal}) : equal);
}

// Operands count as true if they are not zero.
template <OpName op>
void logical(Ctx& c) {
  c.yield(c.emit(op.text, {c.cast(c.tensor("self"), DType::boolean), c.cast(c.tensor("other"), DType::boolean)}));
}

void logical_not(Ctx& c) { c.yield(c.emit("Not", {c.cast(c.tensor("self"), DType::boolean)})); }

// Logical operators on booleans, bitwise ones on integers.
void bitwise(Ctx& c, const char* on_booleans, const char* on_integers) {
  const DType dtype = c.output_dtype();
  const Val x = c.cast(c.tensor("self"), dtype), y = c.cast(c.tensor("other"), dtype);
  if (dtype == DType::boolean) return c.yield(c.emit(on_booleans, {x, y}));
  if (c.opset() < 18)
    c.refuse("ONNX has bitwise operators on integers from opset 18", "export with --opset 18 or newer");
  c.yield(c.emit(on_integers, {x, y}));
}
void bitwise_and(Ctx& c) { bitwise(c, "And", "BitwiseAnd"); }
void bitwise_or(Ctx& c) { bitwise(c, "Or", "BitwiseOr"); }
void bitwise_xor(Ctx& c) { bitwise(c, "Xor", "BitwiseXor"); }

// ~x is -1 - x in two's complement, for opsets without BitwiseNot.
void bitwise_not(Ctx& c) {
  const Val x = c.tensor("self");
  const DType dtype = c.dtype(x);
  if (dtype == DType::boolean) return c.yield(c.emit("Not", {x}));
  if (c.opset() >= 18) return c.yield(c.emit("BitwiseNot", {x}));
  if (dtype == DType::uint8) c.refuse("ONNX has BitwiseNot from opset 18", "export with --opset 18 or newer");
  c.yield(c.emit("Sub", {c.constant_number(-1, dtype), x}));
}

const OpEntry kComparison[] = {
    {"aten::__and__.Scalar(Tensor self, Scalar other) -> Tensor", bitwise_and},
    {"aten::__and__.Tensor(Tensor self, Tensor other) -> Tensor", bitwise_and},
    {"aten::__or__.Scalar(Tensor self, Scalar other) -> Tensor", bitwise_or},
    {"aten::__or__.Tensor(Tensor self, Tensor other) -> Tensor", bitwise_or},
    {"aten::__xor__.Scalar(Tensor self, Scalar other) -> Tensor", bitwise_xor},
    {"aten::__xor__.Tensor(Tensor self, Tensor other) -> Tensor", bitwise_xor},
    {"aten::bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor", bitwise_and},
    {"aten::bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", bitwise_and},
    {"aten::bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor", bitwise_and},
    {"aten::bitwise_not(Tensor self) -> Tensor", bitwise_not},
    {"aten::bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor", bitwise_or},
    {"aten::bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", bitwise_or},
    {"aten::bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor", bitwise_or},
    {"aten::bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor", bitwise_xor},
    {"aten::bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", bitwise_xor},
    {"aten::bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor", bitwise_xor},
    {"aten::eq.Scalar(Tensor self, Scalar other) -> Tensor", comparison<"Equal">},
    {"aten::eq.Tensor(Tensor self, Tensor other) -> Tensor", comparison<"Equal">},
    {"aten::ge.Scalar(Tensor self, Scalar other) -> Tensor", comparison<"GreaterOrEqual">},
    {"aten::ge.Tensor(Tensor self, Tensor other) -> Tensor", comparison<"GreaterOrEqual">},
    {"aten::gt.Scalar(Tensor self, Scalar other) -> Tensor", comparison<"Greater">},
    {"aten::gt.Tensor(Tensor self, Tensor other) -> Tensor", comparison<"Greater">},
    {"aten::isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) "
     "-> Tensor",
     isin},
    {"aten::isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, "
     "bool invert=False) -> Tensor",
     isin_scalar},
    {"aten::le.Scalar(Tensor self, Scalar other) -> Tensor", comparison<"LessOrEqual">},
    {"aten::le.Tensor(Tensor self, Tensor other) -> Tensor", comparison<"LessOrEqual">},
    {"aten::logical_and(Tensor self, Tensor other) -> Tensor", logical<"And">},
    {"aten::logical_not(Tensor self) -> Tensor", logical_not},
    {"aten::logical_or(Tensor self, Tensor other) -> Tensor", logical<"Or">},
    {"aten::logical_xor(Tensor self, Tensor other) -> Tensor", logical<"Xor">},
    {"aten::lt.Scalar(Tensor self, Scalar other) -> Tensor", comparison<"Less">},
    {"aten::lt.Tensor(Tensor self, Tensor other) -> Tensor", comparison<"Less">},
    {"aten::ne.Scalar(Tensor self, Scalar other) -> Tensor", not_equal},
    {"aten::ne.Tensor(Tensor self, Tensor other) -> Tensor", not_equal},
};

}  // namespace

OpFamily comparison_ops() { return kComparison; }

}  // namespace whence::convert
