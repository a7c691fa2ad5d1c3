// New tensors: filled, ranges, triangular. Tensors that depend on no input arrive as constants; the converters here
// take a shape or bounds from inputs.
#include <algorithm>

#include "annotator/convert/ops/families.h"
#include "annotator/convert/select.h"
#include "annotator/program/tensor_values.h"

namespace whence::convert {

namespace {

// ---- filled -----------------------------------------------------------------------------------------------------

// The shape argument `size`, or the shape of self for the operators ending in _like, as an int64 vector.
Val shape_argument(Ctx& c) {
  if (c.schema().find("size")) return c.to_vector(c.sizes("size"));
  const Val self = c.tensor("self");
  if (!c.all_static(self)) return c.emit("Shape", {self});
  Ints sizes;
  for (const Dim& dim : c.dims(self)) sizes.push_back(dim.size);
  return c.constant_ints(sizes);
}

// Returns a tensor of `shape` in which every element is `value`, a scalar of the result's dtype.
Val filled(Ctx& c, Val shape, Val value) {
  const TensorData* known = c.constant(value);
  if (!known) return c.emit("Expand", {value, shape});
  TensorData element = *known;
  element.shape = {1};
  return c.emit("ConstantOfShape", {shape}, {{"value", std::move(element)}});
}

void fill_with(Ctx& c, double value) {
  c.yield(filled(c, shape_argument(c), c.constant_number(value, c.output_dtype())));
}
void zeros(Ctx& c) { fill_with(c, 0); }
void ones(Ctx& c) { fill_with(c, 1); }

void full(Ctx& c) { c.yield(filled(c, shape_argument(c), c.scalar("fill_value", c.output_dtype()))); }

// ---- ranges -----------------------------------------------------------------------------------------------------

// Returns the dtype for ONNX Range, which supports only a few.
DType range_dtype(DType result) {
  if (is_floating(result)) return result == DType::float64 ? result : DType::float32;
  return result == DType::int32 ? result : DType::int64;
}

// Integer ranges between fractional bounds use the truncated start and the truncated step. int64 also truncates the
// end; the other dtypes have as many elements as the fractional bounds give.
Val end_between_fractions(Ctx& c, Val start, Val step) {
  const DType fractions = DType::float64, dtype = c.dtype(start);
  const auto bound = [&](const char* name, double otherwise) {
    return c.schema().find(name) ? c.scalar(name, fractions) : c.constant_number(otherwise, fractions);
  };
  const Val span = c.emit("Sub", {c.scalar("end", fractions), bound("start", 0)});
  const Val count = c.cast(c.emit("Ceil", {c.emit("Div", {span, bound("step", 1)})}), dtype);
  return c.emit("Add", {start, c.emit("Mul", {count, step})});
}

// start, start + step, ... below end.
void arange(Ctx& c) {
  std::vector<Val> operands{c.tensor("end")};
  if (c.schema().find("start")) operands.insert(operands.begin(), c.tensor("start"));
  if (c.schema().find("step")) operands.push_back(c.tensor("step"));
  const DType dtype = range_dtype(c.output_dtype());
  const auto bound = [&](const char* name, double otherwise) {
    return c.schema().find(name) ? c.scalar(name, dtype) : c.constant_number(otherwise, dtype);
  };
  const Val start = bound("start", 0), step = bound("step", 1);
  const auto number = [&](Val value) {
    const TensorData* known = c.constant(value);
    return known ? program::single_number(*known) : std::nullopt;
  };
  const bool fractional = is_integral(dtype) && is_floating(c.promoted_dtype(operands));
  if (fractional && number(step) == 0.0)
    c.refuse("an integer range in steps below 1 is not supported", "count in fractions and cast the result");
  const bool by_count = fractional && c.output_dtype() != DType::int64;
  Val end = by_count ? end_between_fractions(c, start, step) : c.scalar("end", dtype);
  // PyTorch counts the elements in float64. In float32 the end could include or lose one, so it is set between two
  // elements.
  const auto dims = c.output_dims();
  if (dtype == DType::float32 && dims && dims->front().is_static() && number(start) && number(step) && number(end)) {
    const double half = static_cast<double>(dims->front().size) - 0.5;
    if (half > 0) end = c.constant_number(*number(start) + half * *number(step), dtype);
  }
  if (!is_integral(dtype) || number(step).value_or(1) > 0) return c.yield(c.emit("Range", {start, end, step}));
  // Counts down as the negative of counting up: ONNX Runtime (1.31) turns a Gather by a Range with a negative step into
  // an empty Slice.
  const auto negative = [&](Val value) {
    const auto known = number(value);
    return known ? c.constant_number(-*known, dtype) : c.emit("Neg", {value});
  };
  c.yield(c.emit("Neg", {c.emit("Range", {negative(start), negative(end), negative(step)})}));
}

// Returns `steps` numbers from start to end, for a number of steps that the graph computes; a single number is the
// start.
Val linspace_of(Ctx& c, Val start, Val end, Val steps) {
  const DType dtype = c.output_dtype();
  const Val numbers = c.emit("Range", {c.constant_int(0), steps, c.constant_int(1)});
  const Val parts = c.emit("Max", {c.emit("Sub", {steps, c.constant_int(1)}), c.constant_int(1)});
  const auto as_result = [&](Val x) { return c.cast(c.typed(x, DType::int64), dtype); };
  const Val unit = c.emit("Div", {c.emit("Sub", {end, start}), as_result(parts)});
  return c.emit("Add", {start, c.emit("Mul", {as_result(numbers), unit})});
}

// `steps` evenly spaced numbers from start to end, both included.
Val evenly_spaced(Ctx& c) {
  const DType dtype = c.output_dtype();
  const Val start = c.scalar("start", dtype), end = c.scalar("end", dtype);
  const Size count = c.size("steps");
  if (!c.static_size(count)) return linspace_of(c, start, end, std::get<Val>(count));
  const std::int64_t steps = *c.static_size(count);
  if (!c.table_fits({steps})) return linspace_of(c, start, end, c.constant_int(steps));
  std::vector<double> shares(c.table_size({steps}), 0);
  for (std::size_t i = 1; i < shares.size(); ++i) {
    shares[i] = static_cast<double>(i) / static_cast<double>(shares.size() - 1);
  }
  const TensorData data{DType::float64, {steps}, Bytes::copy_of(shares.data(), shares.size() * sizeof(double))};
  const auto share = program::cast_tensor(data, dtype);
  if (!share)
    c.refuse("linspace of dtype " + std::string(name_of(dtype)) + " is not supported", "make float32 and convert");
  const Val way = c.emit("Mul", {c.emit("Sub", {end, start}), c.constant_tensor(*share)});
  return c.emit("Add", {start, way});
}
void linspace(Ctx& c) { c.yield(evenly_spaced(c)); }

// base to the power of evenly spaced exponents.
void logspace(Ctx& c) {
  const DType dtype = c.output_dtype();
  if (!is_floating(dtype))
    c.refuse("logspace of dtype " + std::string(name_of(dtype)) + " is not supported", "make float32 and convert");
  c.yield(c.emit("Pow", {c.constant_number(c.number("base"), dtype), c.typed(evenly_spaced(c), dtype)}));
}

// A number as a 0-d tensor.
void scalar_tensor(Ctx& c) { c.yield(c.scalar("s", c.output_dtype())); }
void tensor_of_number(Ctx& c) { c.yield(c.scalar("t", c.output_dtype())); }

// ---- matrices ---------------------------------------------------------------------------------------------------

// Ones on the diagonal of an n x m matrix; n x n without m.
void eye(Ctx& c) {
  const Size rows = c.size("n"), columns = c.schema().find("m") ? c.size("m") : rows;
  const DType dtype = c.output_dtype();
  const Val empty = filled(c, c.to_vector({rows, columns}), c.constant_number(0, DType::int32));
  // ONNX Runtime has EyeLike only for these.
  const bool own = dtype == DType::float32 || dtype == DType::float64 || dtype == DType::int32 || dtype == DType::int64;
  const DType eye_dtype = own ? dtype : DType::float32;
  const Val ones = c.emit("EyeLike", {empty}, {{"dtype", static_cast<std::int64_t>(to_onnx(eye_dtype))}});
  c.yield(c.cast(c.typed(ones, eye_dtype), dtype));
}

// Opsets before 14 have no Trilu: a constant mask selects the kept elements.
Val triangle_by_mask(Ctx& c, Val x, std::int64_t diagonal, bool upper) {
  const auto rows = c.static_dim(x, -2), columns = c.static_dim(x, -1);
  if (!rows || !columns) c.refuse("the triangle of a dynamic matrix needs opset 14", "use --opset 14 or newer");
  std::vector<std::uint8_t> stays;
  stays.reserve(c.table_size({*rows, *columns}));
  for (std::int64_t i = 0; i < *rows; ++i) {
    for (std::int64_t j = 0; j < *columns; ++j) stays.push_back(upper ? j - i >= diagonal : j - i <= diagonal);
  }
  const Val mask = c.constant_tensor({DType::boolean, {*rows, *columns}, Bytes::copy_of(stays.data(), stays.size())});
  return select(c, mask, x, c.constant_number(0, c.dtype(x)));
}

// The elements on one side of the given diagonal, zeros elsewhere. Runtimes have Trilu for int64 only, among the
// integers.
void triangle(Ctx& c, bool upper) {
  Val x = c.tensor("self");
  if (is_integral(c.dtype(x))) x = c.cast(x, DType::int64);
  const Size diagonal = c.size("diagonal");
  if (c.opset() < 14) return c.yield(triangle_by_mask(c, x, c.integer("diagonal"), upper));
  std::vector<Val> inputs{x};
  if (diagonal != Size{0}) inputs.push_back(c.to_scalar_value(diagonal));
  Attributes attributes;
  if (!upper) attributes.push_back({"upper", 0});
  c.yield(c.emit("Trilu", inputs, attributes));
}
// The indices of the elements on one side of a diagonal of a row x col matrix, in row-major order: [2, n].
template <bool upper>
void triangle_indices(Ctx& c) {
  const auto numbers = [&](const char* name) {
    return c.emit("Range", {c.constant_int(0), c.to_scalar_value(c.size(name)), c.constant_int(1)});
  };
  const Val rows = c.unsqueeze(numbers("row"), {1}), columns = numbers("col");
  const Val limit = c.emit("Add", {rows, c.to_scalar_value(c.size("offset"))});
  c.yield(
      c.typed(c.emit("NonZero", {c.emit(upper ? "GreaterOrEqual" : "LessOrEqual", {columns, limit})}), DType::int64));
}

void tril(Ctx& c) { triangle(c, false); }
void triu(Ctx& c) { triangle(c, true); }

const OpEntry kCreation[] = {
    {"aten::arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor",
     arange},
    {"aten::arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? "
     "device=None, bool? pin_memory=None) -> Tensor",
     arange},
    {"aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     arange},
    {"aten::as_tensor.bool(bool t, *, ScalarType? dtype=None, Device? device=None) -> Tensor", tensor_of_number},
    {"aten::as_tensor.float(float t, *, ScalarType? dtype=None, Device? device=None) -> Tensor", tensor_of_number},
    {"aten::as_tensor.int(int t, *, ScalarType? dtype=None, Device? device=None) -> Tensor", tensor_of_number},
    {"aten::empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     zeros},
    {"aten::empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     zeros},
    {"aten::empty_permuted(SymInt[] size, int[] physical_layout, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     zeros},
    {"aten::empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, Device? "
     "device=None, bool? pin_memory=None) -> Tensor",
     zeros},
    {"aten::eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) "
     "-> Tensor",
     eye},
    {"aten::eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor",
     eye},
    {"aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? "
     "device=None, bool? pin_memory=None) -> Tensor",
     full},
    {"aten::full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? "
     "device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     full},
    {"aten::linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? "
     "device=None, bool? pin_memory=None) -> Tensor",
     linspace},
    {"aten::linspace.Scalar_Tensor(Scalar start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     linspace},
    {"aten::linspace.Tensor_Scalar(Tensor start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     linspace},
    {"aten::linspace.Tensor_Tensor(Tensor start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     linspace},
    {"aten::logspace(Scalar start, Scalar end, int steps, float base=10., *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     logspace},
    {"aten::logspace.Scalar_Tensor(Scalar start, Tensor end, int steps, float base=10., *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     logspace},
    {"aten::logspace.Tensor_Scalar(Tensor start, Scalar end, int steps, float base=10., *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     logspace},
    {"aten::logspace.Tensor_Tensor(Tensor start, Tensor end, int steps, float base=10., *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     logspace},
    {"aten::new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     zeros},
    {"aten::new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     zeros},
    {"aten::new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     full},
    {"aten::new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     ones},
    {"aten::new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     zeros},
    {"aten::ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor",
     ones},
    {"aten::ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     ones},
    {"aten::scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor",
     scalar_tensor},
    {"prims::scalar_tensor(Scalar s, *, ScalarType? dtype=None, Device? device=None) -> Tensor", scalar_tensor},
    {"aten::tensor.bool(bool t, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
     tensor_of_number},
    {"aten::tensor.float(float t, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
     tensor_of_number},
    {"aten::tensor.int(int t, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
     tensor_of_number},
    {"aten::tril(Tensor self, SymInt diagonal=0) -> Tensor", tril},
    {"aten::tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, Device? "
     "device=None, bool? pin_memory=None) -> Tensor",
     triangle_indices<false>},
    {"aten::triu(Tensor self, SymInt diagonal=0) -> Tensor", triu},
    {"aten::triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, Device? "
     "device=None, bool? pin_memory=None) -> Tensor",
     triangle_indices<true>},
    {"aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor",
     zeros},
    {"aten::zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     zeros},
};

}  // namespace

OpFamily creation_ops() { return kCreation; }

}  // namespace whence::convert
