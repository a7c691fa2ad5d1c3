// Conversions between dtypes, between tensors and Python numbers, and the operators that leave values unchanged. A
// graph has no copies, no views that change nothing, and no moves between devices.
#include "annotator/convert/ops/families.h"

namespace whence::convert {
namespace {

// ---- dtypes -----------------------------------------------------------------------------------------------------

// Converts all forms of .to(), .float() and type_as: the recorded result has the target dtype.
void to_dtype(Ctx& c) { c.yield(c.cast(c.tensor("self"), c.output_dtype())); }
void convert_element_type(Ctx& c) { c.yield(c.cast(c.tensor("a"), c.output_dtype())); }

// Reinterprets the bits of self as another dtype.
void reinterpreted(Ctx& c) {
  const Val x = c.tensor("self");
  const DType from = c.dtype(x), to = c.output_dtype();
  if (from == to) return c.yield(x);
  if (size_of(from) != size_of(to) || is_complex(from) || is_complex(to)) {
    c.refuse("view() as a dtype of another size or a complex dtype is not supported",
             "view it as a dtype of as many bits");
  }
  if (const TensorData* known = c.constant(x)) {
    return c.yield(c.constant_tensor({to, known->shape, known->bytes}));
  }
  if (c.opset() < 26) c.refuse("ONNX has BitCast from opset 26", "export with --opset 26 or newer");
  c.yield(c.emit("BitCast", {x}, {{"to", std::int64_t{to_onnx(to)}}}));
}

// Yields self unchanged.
void same(Ctx& c) { c.yield(c.tensor("self")); }

// ---- tensors and numbers ----------------------------------------------------------------------------------------

// Returns the single element of a tensor as a 0-d value.
Val element(Ctx& c, Val x) { return c.rank(x) == 0 ? x : c.emit("Reshape", {x, c.constant_ints({})}); }

// Tensor to number. int() of a fraction rounds towards zero, like Cast.
template <const char* argument>
void number_of(Ctx& c) {
  c.yield(c.cast(element(c, c.tensor(argument)), c.output_dtype()));
}
constexpr char kA[] = "a", kSelf[] = "self";

// ---- sizes ------------------------------------------------------------------------------------------------------

void size(Ctx& c) {
  const Val x = c.tensor("self");
  c.yield(c.dim_of(x, c.integer("dim")));
}

// Yields all sizes of self, as a list of numbers.
void sizes(Ctx& c) {
  const Val x = c.tensor("self");
  std::vector<Val> all;
  for (int axis = 0; axis < c.rank(x); ++axis) all.push_back(c.dim_of(x, axis));
  c.yield(all);
}

void shape_as_tensor(Ctx& c) { c.yield(c.emit("Shape", {c.tensor("self")})); }

void numel(Ctx& c) { c.yield(c.emit("Size", {c.tensor("self")})); }

void rank(Ctx& c) { c.yield(c.constant_int(c.rank(c.tensor("self")))); }

void length(Ctx& c) { c.yield(c.dim_of(c.tensor("t"), 0)); }

const OpEntry kCast[] = {
    {"aten::Bool.Tensor(Tensor a) -> bool", number_of<kA>},
    {"aten::Bool.float(float a) -> bool", number_of<kA>},
    {"aten::Bool.int(int a) -> bool", number_of<kA>},
    {"aten::Float.Scalar(Scalar a) -> float", number_of<kA>},
    {"aten::Float.Tensor(Tensor a) -> float", number_of<kA>},
    {"aten::Float.bool(bool a) -> float", number_of<kA>},
    {"aten::Int.Scalar(Scalar a) -> int", number_of<kA>},
    {"aten::Int.Tensor(Tensor a) -> int", number_of<kA>},
    {"aten::Int.bool(bool a) -> int", number_of<kA>},
    {"aten::Int.float(float a) -> int", number_of<kA>},
    {"aten::IntImplicit(Tensor a) -> int", number_of<kA>},
    {"aten::ScalarImplicit(Tensor a) -> Scalar", number_of<kA>},
    {"aten::_cast_Float(Tensor self, bool non_blocking=False) -> Tensor", to_dtype},
    {"aten::_local_scalar_dense(Tensor self) -> Scalar", number_of<kSelf>},
    {"aten::_shape_as_tensor(Tensor self) -> Tensor", shape_as_tensor},
    {"aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
     to_dtype},
    {"aten::alias(Tensor(a) self) -> Tensor(a)", same},
    {"aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", same},
    {"aten::conj(Tensor(a) self) -> Tensor(a)", same},
    {"aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)", same},
    {"aten::cpu(Tensor(a) self) -> Tensor(b|a)", same},
    {"aten::detach(Tensor(a) self) -> Tensor(a)", same},
    {"aten::dim(Tensor self) -> int", rank},
    {"aten::is_nonzero(Tensor self) -> bool", number_of<kSelf>},
    {"aten::item(Tensor self) -> Scalar", number_of<kSelf>},
    {"aten::len.Tensor(Tensor t) -> int", length},
    {"aten::lift(Tensor self) -> Tensor", same},
    {"aten::lift_fresh(Tensor(a) self) -> Tensor(a)", same},
    {"aten::lift_fresh_copy(Tensor self) -> Tensor", same},
    {"aten::numel(Tensor self) -> int", numel},
    {"aten::positive(Tensor(a) self) -> Tensor(a)", same},
    {"aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)", reinterpreted},
    {"prim::NumToTensor.Scalar(Scalar a) -> Tensor", number_of<kA>},
    {"aten::real(Tensor(a) self) -> Tensor(a)", same},
    {"aten::resolve_conj(Tensor(a) self) -> Tensor(a)", same},
    {"aten::resolve_neg(Tensor(a) self) -> Tensor(a)", same},
    {"aten::size(Tensor self) -> int[]", sizes},
    {"aten::size.int(Tensor self, int dim) -> int", size},
    {"aten::sym_numel(Tensor self) -> SymInt", numel},
    {"aten::sym_size.int(Tensor self, int dim) -> SymInt", size},
    {"aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, "
     "MemoryFormat? memory_format=None) -> Tensor(a)",
     to_dtype},
    {"aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? "
     "memory_format=None) -> Tensor(a)",
     to_dtype},
    {"aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
     to_dtype},
    {"aten::to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? "
     "memory_format=None) -> Tensor(a)",
     to_dtype},
    {"aten::to.prim_other(Tensor(a) self, bool non_blocking=False, bool copy=False) -> Tensor(b|a)", to_dtype},
    {"aten::type_as(Tensor self, Tensor other) -> Tensor", to_dtype},
    {"prims::convert_element_type(Tensor a, ScalarType dtype) -> Tensor", convert_element_type},
};

}  // namespace

OpFamily cast_ops() { return kCast; }

}  // namespace whence::convert
