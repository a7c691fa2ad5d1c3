// Linear systems and inverses. ONNX has no operator for them, so they become a Loop over the columns.
#include <algorithm>

#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"
#include "annotator/convert/select.h"

namespace whence::convert {
namespace {

// One step of Gauss-Jordan elimination: turns column `i` of `m` [*, n, w] into that of the identity matrix. The pivot
// is the largest element of the column from row i on, and its row is swapped with row i. `rows`: 0 to n - 1, as [n, 1].
Val eliminate(Ctx& c, Val m, Val i, Val rows, const std::vector<Dim>& dims) {
  const DType dtype = c.output_dtype();
  const auto rank = static_cast<std::int64_t>(dims.size());
  const auto typed = [&](Val value) { return c.typed(value, dtype, dims); };
  const auto at = [&](Val matrix, std::int64_t axis) {  // keeps the axis with size 1
    return c.typed(c.emit("Gather", {matrix, i}, {{"axis", axis}}), dtype);
  };
  const Val is_row = c.emit("Equal", {rows, i});
  const Val size = select(c, c.emit("Less", {rows, i}), c.constant_number(-1, dtype), c.emit("Abs", {at(m, rank - 1)}));
  const Val pivot = c.emit("ArgMax", {c.typed(size, dtype)}, {{"axis", rank - 2}, {"keepdims", 1}});
  const Val is_pivot = c.emit("Equal", {rows, pivot});
  const Val pivot_only = typed(select(c, is_pivot, m, c.constant_number(0, dtype)));
  const Val pivot_row = c.typed(reduce(c, "ReduceSum", pivot_only, {rank - 2}, true), dtype);
  const Val moved = typed(select(c, is_pivot, at(m, rank - 2), m));
  const Val swapped = typed(select(c, is_row, pivot_row, moved));
  const Val scaled = c.typed(c.emit("Div", {pivot_row, at(pivot_row, rank - 1)}), dtype);
  const Val rest = c.emit("Sub", {swapped, c.emit("Mul", {at(swapped, rank - 1), scaled})});
  return typed(select(c, is_row, scaled, typed(rest)));
}

// Solves A X = B: [*, n, n] and [*, n, k] give X [*, n, k]. A singular matrix gives infinities or NaN; PyTorch fails.
Val solve(Ctx& c, Val a, Val b) {
  const auto rank = static_cast<std::int64_t>(c.rank(a));
  const Val n = c.dim_of(a, -1);
  const Val rows = c.unsqueeze(c.emit("Range", {c.constant_int(0), n, c.constant_int(1)}), {1});
  std::vector<Dim> dims = c.dims(a);
  dims.back() = Dim{-1, true, none_id};
  const Val joined = c.typed(c.emit("Concat", {a, b}, {{"axis", rank - 1}}), c.output_dtype(), dims);
  const auto step = [&](Val iteration, const std::vector<Val>& carried) -> std::vector<Val> {
    return {eliminate(c, carried[0], c.unsqueeze(iteration, {0}), c.from_enclosing(rows), dims)};
  };
  const Val reduced = c.loop(n, {joined}, step).front();
  const Val begin = c.unsqueeze(n, {0}), end = c.emit("Add", {begin, c.unsqueeze(c.dim_of(b, -1), {0})});
  return c.typed(c.emit("Slice", {reduced, begin, end, c.constant_ints({rank - 1})}), c.output_dtype());
}

// PyTorch also refuses these matrices, but not in a branch that the example does not take.
void require_square(Ctx& c, Val a) {
  c.expect(c.rank(a) >= 2, "it needs matrices");
  const auto rows = c.static_dim(a, -2), columns = c.static_dim(a, -1);
  c.expect(!rows || !columns || *rows == *columns, "the matrices must be square");
  c.expect(c.dtype(a) == DType::float32 || c.dtype(a) == DType::float64, "the matrices must be float32 or float64");
}

Val transposed(Ctx& c, Val matrices) {
  Ints order;
  for (int axis = 0; axis < c.rank(matrices); ++axis) order.push_back(axis);
  std::swap(order[order.size() - 2], order.back());
  return c.transpose(matrices, order);
}

// Identity matrices with the shape of `a` [*, n, n].
Val identity_like(Ctx& c, Val a) {
  const Val rows = c.unsqueeze(c.emit("Range", {c.constant_int(0), c.dim_of(a, -1), c.constant_int(1)}), {1});
  const Val diagonal = c.emit("Equal", {rows, c.emit("Transpose", {rows}, {{"perm", Ints{1, 0}}})});
  const Val shape = c.emit("Shape", {a});
  const Val identity = c.emit("Expand", {c.cast(c.typed(diagonal, DType::boolean), c.output_dtype()), shape});
  return c.typed(identity, c.output_dtype(), c.dims(a));
}

// Yields the inverse. Which matrices are singular, as PyTorch reports in a second result, is known only at run time.
void invert(Ctx& c, Val a) {
  require_square(c, a);
  const Val inverse = solve(c, a, identity_like(c, a));
  if (c.output_count() == 1) return c.yield(inverse);
  if (c.result_used(1)) c.refuse("ONNX cannot report which matrices are singular", "use the inverse only");
  c.yield({inverse, absent});
}

void inv(Ctx& c) { invert(c, c.tensor("A")); }
void inverse(Ctx& c) { invert(c, c.tensor("self")); }

// Solves A X = B, or X A = B if `left` is false, for X. A [*, n, n], B [*, n, k] or [*, k, n].
Val solve_from(Ctx& c, Val a, Val b, bool left) {
  bool alike = c.rank(b) == c.rank(a);
  for (std::size_t axis = 0; alike && axis + 2 < static_cast<std::size_t>(c.rank(a)); ++axis) {
    alike = c.dims(a)[axis] == c.dims(b)[axis];
  }
  if (!alike)
    c.refuse("broadcasting of matrices is not supported", "expand both to the same leading sizes before solving");
  if (left) return solve(c, a, b);
  const Val turned = transposed(c, b);
  return transposed(c, c.typed(solve(c, transposed(c, a), turned), c.output_dtype(), c.dims(turned)));
}

// A X = B, or X A = B with left=False. B has one vector for each matrix if its shape is that of A without the last
// axis.
void linalg_solve(Ctx& c) {
  Val a = c.tensor("A"), b = c.tensor("B");
  require_square(c, a);
  c.expect(c.dtype(b) == c.dtype(a), "both tensors must have the same dtype");
  const int rank = c.rank(a);
  const bool vector = c.rank(b) == rank - 1;
  if (vector) b = c.unsqueeze(b, {rank - 1});
  for (int index = 1; index < c.output_count(); ++index) {
    if (c.result_used(index)) c.refuse("ONNX has no LU decomposition", "use the solution only");
  }
  Val x = solve_from(c, a, b, c.flag("left"));
  if (vector) x = c.squeeze(x, {rank - 1});
  std::vector<Val> results(static_cast<std::size_t>(c.output_count()), absent);
  results.front() = x;
  c.yield(results);
}

// Returns 0 to n - 1 as [n, 1] and as [1, n], for matrices [*, n, n].
std::pair<Val, Val> row_and_column_numbers(Ctx& c, Val a) {
  const Val range = c.emit("Range", {c.constant_int(0), c.dim_of(a, -1), c.constant_int(1)});
  return {c.unsqueeze(range, {1}), c.unsqueeze(range, {0})};
}

// `a` [*, n, n] with zeros in the other triangle, and with ones on the diagonal if `unit`, whatever `a` has there.
Val triangle_of(Ctx& c, Val a, bool upper, bool unit) {
  const auto [rows, columns] = row_and_column_numbers(c, a);
  const std::vector<Dim> dims = c.dims(a);
  const Val is_zero = c.emit(upper ? "Less" : "Greater", {columns, rows});
  Val triangle = c.typed(select(c, is_zero, c.constant_number(0, c.dtype(a)), a), c.dtype(a), dims);
  if (unit) {
    const Val is_diagonal = c.emit("Equal", {rows, columns});
    triangle = c.typed(select(c, is_diagonal, c.constant_number(1, c.dtype(a)), triangle), c.dtype(a), dims);
  }
  return triangle;
}

void solve_triangular(Ctx& c) {
  const Val a = c.tensor("self"), b = c.tensor("B");
  require_square(c, a);
  c.expect(c.dtype(b) == c.dtype(a), "both tensors must have the same dtype");
  c.yield(solve_from(c, triangle_of(c, a, c.flag("upper"), c.flag("unitriangular")), b, c.flag("left")));
}

// The older form, which also returns A unchanged.
void triangular_solve(Ctx& c) {
  const Val a = c.tensor("A"), b = c.tensor("self");
  require_square(c, a);
  c.expect(c.dtype(b) == c.dtype(a), "both tensors must have the same dtype");
  const Val triangle = triangle_of(c, a, c.flag("upper"), c.flag("unitriangular"));
  c.yield({solve_from(c, c.flag("transpose") ? transposed(c, triangle) : triangle, b, true), a});
}

// Solves A X = B by the factor of A = L L^T, or of A = U^T U with `upper`: two systems, one after the other.
Val solve_by_factor(Ctx& c, Val factor, Val b) {
  const bool upper = c.flag("upper");
  Val lower = triangle_of(c, factor, upper, false);
  Val other = transposed(c, lower);
  if (upper) std::swap(lower, other);
  const std::vector<Dim> dims = c.dims(b);
  return solve_from(c, other, c.typed(solve_from(c, lower, b, true), c.output_dtype(), dims), true);
}

void cholesky_solve(Ctx& c) {
  const Val factor = c.tensor("input2"), b = c.tensor("self");
  require_square(c, factor);
  c.expect(c.dtype(b) == c.dtype(factor), "both tensors must have the same dtype");
  c.yield(solve_by_factor(c, factor, b));
}

void cholesky_inverse(Ctx& c) {
  const Val factor = c.tensor("self");
  require_square(c, factor);
  c.yield(solve_by_factor(c, factor, identity_like(c, factor)));
}

// The lower triangle L of A = L L^T, one column per iteration: column i of the remaining A, divided by the root of its
// diagonal element; its outer product is then subtracted from the remaining A. Gives NaN if A is not positive definite,
// where PyTorch fails. [*, n, n] -> [*, n, n]
Val cholesky_factor(Ctx& c, Val a) {
  const DType dtype = c.output_dtype();
  const std::vector<Dim> dims = c.dims(a);
  const auto rank = static_cast<std::int64_t>(dims.size());
  const auto [rows, columns] = row_and_column_numbers(c, a);
  const auto step = [&, rows = rows, columns = columns](Val iteration,
                                                        const std::vector<Val>& carried) -> std::vector<Val> {
    const Val i = c.unsqueeze(iteration, {0}), below = c.from_enclosing(rows), across = c.from_enclosing(columns);
    const Val zero = c.constant_number(0, dtype);
    const Val column = c.emit("Gather", {carried[0], i}, {{"axis", rank - 1}});
    const Val root = c.emit("Sqrt", {c.emit("Gather", {column, i}, {{"axis", rank - 2}})});
    std::vector<Dim> column_dims = dims;
    column_dims.back() = {1, false, none_id};
    const Val scaled = c.typed(c.emit("Div", {column, root}), dtype, column_dims);
    const Val next = c.typed(select(c, c.emit("Less", {below, i}), zero, scaled), dtype, column_dims);
    const Val left = c.emit("Sub", {carried[0], c.emit("Mul", {next, transposed(c, next)})});
    const Val factor = select(c, c.emit("Equal", {across, i}), next, carried[1]);
    return {c.typed(left, dtype, dims), c.typed(factor, dtype, dims)};
  };
  return c.loop(c.dim_of(a, -1), {a, a}, step).back();
}

void cholesky(Ctx& c) {
  Val a = c.tensor("self");
  require_square(c, a);
  const bool upper = c.flag("upper");
  if (upper) a = transposed(c, a);
  Val factor = c.typed(cholesky_factor(c, a), c.output_dtype(), c.dims(a));
  if (upper) factor = transposed(c, factor);
  if (c.output_count() == 1) return c.yield(factor);
  if (c.result_used(1)) c.refuse("ONNX cannot report which matrices are positive definite", "use the factor only");
  c.yield({factor, absent});
}

const OpEntry kSolve[] = {
    {"aten::_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor "
     "LU, Tensor pivots, Tensor info)",
     linalg_solve},
    {"aten::cholesky(Tensor self, bool upper=False) -> Tensor", cholesky},
    {"aten::cholesky_inverse(Tensor self, bool upper=False) -> Tensor", cholesky_inverse},
    {"aten::cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor", cholesky_solve},
    {"aten::inverse(Tensor self) -> Tensor", inverse},
    {"aten::linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor", cholesky},
    {"aten::linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
     cholesky},
    {"aten::linalg_inv(Tensor A) -> Tensor", inv},
    {"aten::linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)", inv},
    {"aten::linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", linalg_solve},
    {"aten::linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> "
     "Tensor",
     solve_triangular},
    {"aten::linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor "
     "info)",
     linalg_solve},
    {"aten::triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool "
     "unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
     triangular_solve},
};

}  // namespace

OpFamily solve_ops() { return kSolve; }

}  // namespace whence::convert
