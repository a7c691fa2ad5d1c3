// Matrices: norms that need no singular values, determinants, diagonals, covariance.
#include <algorithm>
#include <cmath>
#include <string>

#include "annotator/convert/ops/elementwise.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"
#include "annotator/convert/select.h"
#include "annotator/convert/vector_norm.h"

namespace whence::convert {
namespace {

// ---- norms ------------------------------------------------------------------------------------------------------

[[noreturn]] void refuse_singular_values(Ctx& c, const std::string& order) {
  c.refuse("a matrix norm of order " + order + " needs singular values, which ONNX cannot compute",
           "use the Frobenius norm, or order 1 or infinity");
}

// Returns the axes of the matrices as nonnegative numbers.
Ints matrix_axes(Ctx& c, Val x) {
  Ints axes = c.schema().find("dim") && c.has("dim") ? c.integers("dim") : Ints{-2, -1};
  for (std::int64_t& axis : axes) axis = c.axis(axis, c.rank(x));
  return axes;
}

// The greatest sum of absolute values of a column, or of a row if the order is infinite; a negative order takes the
// least. The greatest of no sums is 0.
Val norm_of_sums(Ctx& c, Val x, double order, const Ints& axes, bool keep) {
  if (std::abs(order) != 1 && !std::isinf(order)) {
    const bool is_integer = std::abs(order) < 1e9 && order == std::floor(order);
    refuse_singular_values(c, is_integer ? std::to_string(static_cast<int>(order)) : std::to_string(order));
  }
  c.expect(axes.size() == 2, "dim must name two axes");
  const std::int64_t summed = std::isinf(order) ? axes[1] : axes[0], other = std::isinf(order) ? axes[0] : axes[1];
  const Val sums = reduce(c, "ReduceL1", x, {summed}, true);
  Val found = reduce_with_nan(c, order > 0 ? "ReduceMax" : "ReduceMin", sums, {other}, true);
  if (order > 0 && c.static_dim(x, other).value_or(0) == 0) {
    found = c.emit("Max", {found, c.constant_number(0, c.dtype(x))});
  }
  return keep ? found : c.squeeze(found, axes);
}

void matrix_norm(Ctx& c) {
  const Val x = self_as_result(c);
  c.yield(norm_of_sums(c, x, c.number("ord"), matrix_axes(c, c.tensor("self")), c.flag("keepdim")));
}

void frobenius(Ctx& c) {
  c.yield(reduce(c, "ReduceL2", self_as_result(c), matrix_axes(c, c.tensor("self")), c.flag("keepdim")));
}

// Named orders: Frobenius and nuclear.
void norm_by_name(Ctx& c) {
  const std::string order = c.one_of("ord", {"fro", "nuc"});
  if (order == "nuc") refuse_singular_values(c, "'nuc'");
  frobenius(c);
}

void nuclear_norm(Ctx& c) { refuse_singular_values(c, "'nuc'"); }

// Without an order: the 2-norm of all elements, or over the given axes. With an order: the norm of vectors or matrices.
void linalg_norm(Ctx& c) {
  const Val x = c.tensor("self");
  const bool one_axis = c.has("dim") ? c.integers("dim").size() == 1 : c.rank(x) == 1;
  if (c.has("ord") && !one_axis) return matrix_norm(c);
  Ints axes;
  if (c.has("dim")) axes = c.integers("dim");
  for (std::int64_t& axis : axes) axis = c.axis(axis, c.rank(x));
  c.yield(vector_norm(c, self_as_result(c), c.has("ord") ? c.number("ord") : 2, axes, c.flag("keepdim")));
}

// ---- determinants -----------------------------------------------------------------------------------------------

template <const char* argument>
void det(Ctx& c) {
  c.yield(c.emit("Det", {c.tensor(argument)}));
}
constexpr char kSelf[] = "self", kA[] = "A";

// Also returns the factors of the LU decomposition, for the backward pass.
void det_with_factors(Ctx& c) {
  if (c.result_used(1) || c.result_used(2)) c.refuse("ONNX has no LU decomposition", "use the determinant only");
  c.yield({c.emit("Det", {c.tensor("A")}), absent, absent});
}

// Sign, and logarithm of the absolute value; the factors are for the backward pass.
void slogdet(Ctx& c) {
  const Val det = c.typed(c.emit("Det", {c.tensor("A")}), c.output_dtype());
  if (c.schema().returns.size() > 2 && (c.result_used(2) || c.result_used(3))) {
    c.refuse("ONNX has no LU decomposition", "use sign and logarithm only");
  }
  c.yield({c.emit("Sign", {det}), c.emit("Log", {c.emit("Abs", {det})})});
}

void logdet(Ctx& c) { c.yield(c.emit("Log", {c.typed(c.emit("Det", {c.tensor("self")}), c.output_dtype())})); }

// ---- diagonals --------------------------------------------------------------------------------------------------

// True where column - row equals `offset`: [rows, columns].
Val on_diagonal(Ctx& c, Val rows, Val columns, std::int64_t offset) {
  const auto numbers = [&](std::int64_t from, Val count) {
    const Val to = from == 0 ? count : c.emit("Add", {count, c.constant_int(from)});
    return c.emit("Range", {c.constant_int(from), to, c.constant_int(1)});
  };
  return c.emit("Equal", {c.unsqueeze(numbers(offset, rows), {1}), numbers(0, columns)});
}

void trace(Ctx& c) {
  const Val x = self_as_result(c);
  const Val self = c.tensor("self");
  const Val mask = on_diagonal(c, c.dim_of(self, 0), c.dim_of(self, 1), 0);
  const Val diagonal = select(c, mask, x, c.constant_number(0, c.dtype(x)));
  c.yield(reduce(c, "ReduceSum", c.typed(diagonal, c.dtype(x)), {}, false));
}

// [*, n] -> [*, n + |offset|, n + |offset|], whose last two axes move to dim1 and dim2. x is first padded to n +
// |offset| elements, at its end or, for a diagonal below the main one, at its start; row i then contains x[i].
void diag_embed(Ctx& c) {
  Val x = c.tensor("self");
  const DType dtype = c.dtype(x);
  const int rank = c.rank(x) + 1;
  const std::int64_t offset = c.integer("offset"), more = std::abs(offset);
  const std::int64_t row = c.axis(c.integer("dim1"), rank), column = c.axis(c.integer("dim2"), rank);
  const auto known = c.static_dim(x, -1);
  const Val size = known ? c.constant_int(*known + more) : c.emit("Add", {c.dim_of(x, -1), c.constant_int(more)});
  if (more != 0) {
    Ints pads(2 * (rank - 1), 0);
    pads[offset > 0 ? pads.size() - 1 : rank - 2] = more;
    x = c.typed(c.emit("Pad", {x, c.constant_ints(pads)}), dtype);
  }
  const Val mask = on_diagonal(c, size, size, offset);
  const Val matrices = select(c, mask, c.unsqueeze(x, {rank - 1}), c.constant_number(0, dtype));
  Ints order;
  std::int64_t next = 0;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    order.push_back(axis == row ? rank - 2 : axis == column ? rank - 1 : next++);
  }
  c.yield(c.transpose(matrices, order));
}

// Replaces the diagonal with src [*, k]: moves the axes of the matrix to the end, gathers src[i] for each row with an
// element on the diagonal, and selects it there. A diagonal that may be empty gets one more element, which is never
// selected.
void diagonal_scatter(Ctx& c) {
  const Val x = c.tensor("self");
  Val src = c.cast(c.tensor("src"), c.dtype(x));
  const int rank = c.rank(x);
  const std::int64_t offset = c.integer("offset");
  const std::int64_t row = c.axis(c.integer("dim1"), rank), column = c.axis(c.integer("dim2"), rank);
  Ints order, back(static_cast<std::size_t>(rank));
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    if (axis != row && axis != column) order.push_back(axis);
  }
  order.insert(order.end(), {row, column});
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  const Val rows = c.dim_of(x, row), mask = on_diagonal(c, rows, c.dim_of(x, column), offset);
  const std::int64_t first = std::max<std::int64_t>(0, -offset);
  const Val numbers =
      c.emit("Range", {c.constant_int(-first), c.emit("Sub", {rows, c.constant_int(first)}), c.constant_int(1)});
  const auto length = c.static_dim(src, -1);
  const bool may_be_empty = !length || *length == 0;
  const Val last = may_be_empty ? c.dim_of(src, -1) : c.constant_int(*length - 1);
  if (may_be_empty) {
    Ints pads(2 * static_cast<std::size_t>(rank - 1), 0);
    pads.back() = 1;
    src = c.typed(c.emit("Pad", {src, c.constant_ints(pads)}), c.dtype(src), c.dims(src));
  }
  const Val indices = c.emit("Clip", {numbers, c.constant_int(0), last});
  std::vector<Dim> dims = c.dims(src);
  dims.back() = c.dims(x)[static_cast<std::size_t>(row)];
  const Val spread = c.typed(c.emit("Gather", {src, indices}, {{"axis", rank - 2}}), c.dtype(src), dims);
  const Val matrices = c.transpose(x, order);
  c.yield(c.transpose(select(c, mask, c.unsqueeze(spread, {rank - 1}), matrices), back));
}

// ---- covariance -------------------------------------------------------------------------------------------------

// Covariance of observations [variables, n] with weights w: with d the deviations from the weighted mean, (d w) d^T
// divided by sum w - correction * sum (w a) / sum w, where a are the importance weights.
Val covariance(Ctx& c, Val x, Val counts, Val importance, double correction) {
  const DType dtype = c.output_dtype();
  const auto binary = [&](const char* op, Val a, Val b) { return c.typed(c.emit(op, {a, b}), dtype); };
  const auto sum = [&](Val v) { return c.typed(reduce(c, "ReduceSum", v, {}, false), dtype); };
  Val weights = counts ? c.cast(counts, dtype) : absent;
  if (importance) weights = weights ? binary("Mul", weights, c.cast(importance, dtype)) : c.cast(importance, dtype);
  const Val total = weights ? sum(weights) : c.cast(c.dim_of(x, 1), dtype);
  const Val all = reduce(c, "ReduceSum", weights ? binary("Mul", x, weights) : x, {1}, true);
  const Val deviations = binary("Sub", x, binary("Div", all, total));
  Val divisor = total;
  if (importance && correction != 0) {
    const Val ratio = binary("Div", sum(binary("Mul", weights, c.cast(importance, dtype))), total);
    divisor = binary("Sub", total, binary("Mul", ratio, c.constant_number(correction, dtype)));
  } else if (correction != 0) {
    divisor = binary("Sub", total, c.constant_number(correction, dtype));
  }
  const Val right =
      c.emit("Transpose", {weights ? binary("Mul", deviations, weights) : deviations}, {{"perm", Ints{1, 0}}});
  const Val positive = c.emit("Max", {divisor, c.constant_number(0, dtype)});
  return binary("Div", binary("MatMul", deviations, right), c.typed(positive, dtype));
}

// Returns the observations as a matrix; a single variable becomes one row.
Val variables(Ctx& c) {
  const Val x = self_as_result(c);
  return c.rank(x) == 2 ? x : c.reshape(x, {std::int64_t{1}, std::int64_t{-1}});
}
Val as_scalar_of_one(Ctx& c, Val matrix) {
  return c.rank(c.tensor("self")) == 2 && c.static_dim(c.tensor("self"), 0) != 1
             ? matrix
             : c.emit("Reshape", {matrix, c.constant_ints({})});
}

void cov(Ctx& c) {
  c.yield(as_scalar_of_one(c, covariance(c, variables(c), c.optional_tensor("fweights"), c.optional_tensor("aweights"),
                                         static_cast<double>(c.integer("correction")))));
}

// Covariances divided by both standard deviations, clipped to [-1, 1].
void corrcoef(Ctx& c) {
  const DType dtype = c.output_dtype();
  const Val x = variables(c);
  const Val covariances = covariance(c, x, absent, absent, 1);
  const Val mask = on_diagonal(c, c.dim_of(x, 0), c.dim_of(x, 0), 0);
  const Val diagonal = c.typed(select(c, mask, covariances, c.constant_number(0, dtype)), dtype);
  const Val deviation = c.emit("Sqrt", {c.typed(reduce(c, "ReduceSum", diagonal, {1}, true), dtype)});
  const Val across = c.emit("Transpose", {deviation}, {{"perm", Ints{1, 0}}});
  const Val ratios = c.emit("Div", {c.emit("Div", {covariances, deviation}), across});
  c.yield(as_scalar_of_one(c, c.emit("Clip", {ratios, c.constant_number(-1, dtype), c.constant_number(1, dtype)})));
}

const OpEntry kMatrix[] = {
    {"aten::corrcoef(Tensor self) -> Tensor", corrcoef},
    {"aten::cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor", cov},
    {"aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
     diagonal_scatter},
    {"aten::_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)", det_with_factors},
    {"aten::_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)", slogdet},
    {"aten::linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", slogdet},
    {"aten::det(Tensor self) -> Tensor", det<kSelf>},
    {"aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", diag_embed},
    {"aten::linalg_det(Tensor A) -> Tensor", det<kA>},
    {"aten::linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? "
     "dtype=None) -> Tensor",
     matrix_norm},
    {"aten::linalg_matrix_norm.str_ord(Tensor self, str ord='fro', int[] dim=[-2, -1], bool keepdim=False, *, "
     "ScalarType? dtype=None) -> Tensor",
     norm_by_name},
    {"aten::linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, "
     "ScalarType? dtype=None) -> Tensor",
     linalg_norm},
    {"aten::linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) "
     "-> Tensor",
     norm_by_name},
    {"aten::logdet(Tensor self) -> Tensor", logdet},
    {"aten::nuclear_norm(Tensor self, bool keepdim=False) -> Tensor", nuclear_norm},
    {"aten::nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor", nuclear_norm},
    {"aten::trace(Tensor self) -> Tensor", trace},
};

}  // namespace

OpFamily matrix_ops() { return kMatrix; }

}  // namespace whence::convert
