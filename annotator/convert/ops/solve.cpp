// Linear systems and inverses. ONNX has no operator for them, so they are a Loop over the columns.
#include <algorithm>

#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"
#include "annotator/convert/select.h"

namespace whence::convert {
namespace {

// One step of Gauss-Jordan elimination: column `i` of `m` [*, n, w] becomes that of the identity matrix. The pivot is
// the largest element of the column from row i on, whose row changes places with row i. `rows`: 0 to n - 1, as [n, 1].
Val eliminate(Ctx& c, Val m, Val i, Val rows, const std::vector<Dim>& dims) {
  const DType dtype = c.output_dtype();
  const auto rank = static_cast<std::int64_t>(dims.size());
  const auto typed = [&](Val value) { return c.typed(value, dtype, dims); };
  const auto at = [&](Val matrix, std::int64_t axis) {  // keeps the axis, 1 long
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

// X of A X = B: [*, n, n] and [*, n, k] give [*, n, k]. A singular matrix gives infinities or NaN, where PyTorch fails.
Val solve(Ctx& c, Val a, Val b) {
  const auto rank = static_cast<std::int64_t>(c.rank(a));
  const Val n = c.dim_of(a, -1);
  const Val rows = c.unsqueeze(c.emit("Range", {c.constant_int(0), n, c.constant_int(1)}), {1});
  std::vector<Dim> dims = c.dims(a);
  dims.back() = Dim{-1, true, none_id};
  const Val joined = c.typed(c.emit("Concat", {a, b}, {{"axis", rank - 1}}), c.output_dtype(), dims);
  const auto step = [&](Val iteration, const std::vector<Val>& carried) -> std::vector<Val> {
    return {eliminate(c, carried[0], c.unsqueeze(iteration, {0}), c.from_around(rows), dims)};
  };
  const Val reduced = c.loop(n, {joined}, step).front();
  const Val begin = c.unsqueeze(n, {0}), end = c.emit("Add", {begin, c.unsqueeze(c.dim_of(b, -1), {0})});
  return c.typed(c.emit("Slice", {reduced, begin, end, c.constant_ints({rank - 1})}), c.output_dtype());
}

// PyTorch refuses these too, but not in a branch that the example does not take.
void require_square(Ctx& c, Val a) {
  c.expect(c.rank(a) >= 2, "it takes matrices");
  const auto rows = c.static_dim(a, -2), columns = c.static_dim(a, -1);
  c.expect(!rows || !columns || *rows == *columns, "its matrices are not square");
  c.expect(c.dtype(a) == DType::float32 || c.dtype(a) == DType::float64, "its matrices are not of float32 or float64");
}

Val transposed(Ctx& c, Val matrices) {
  Ints order;
  for (int axis = 0; axis < c.rank(matrices); ++axis) order.push_back(axis);
  std::swap(order[order.size() - 2], order.back());
  return c.transpose(matrices, order);
}

// The inverse, and that no matrix was singular: what PyTorch would find is not known before the file runs.
void invert(Ctx& c, Val a) {
  require_square(c, a);
  const Val rows = c.unsqueeze(c.emit("Range", {c.constant_int(0), c.dim_of(a, -1), c.constant_int(1)}), {1});
  const Val diagonal = c.emit("Equal", {rows, c.emit("Transpose", {rows}, {{"perm", Ints{1, 0}}})});
  const Val shape = c.emit("Shape", {a});
  const Val identity = c.emit("Expand", {c.cast(c.typed(diagonal, DType::boolean), c.output_dtype()), shape});
  const Val inverse = solve(c, a, c.typed(identity, c.output_dtype(), c.dims(a)));
  if (c.output_count() == 1) return c.yield(inverse);
  if (c.result_used(1)) c.refuse("the file cannot say which matrices are singular", "use the inverse only");
  c.yield({inverse, absent});
}

void inv(Ctx& c) { invert(c, c.tensor("A")); }
void inverse(Ctx& c) { invert(c, c.tensor("self")); }

// A X = B, or X A = B with left=False. B is a vector for each matrix where it has the sizes of A but for the last.
void linalg_solve(Ctx& c) {
  Val a = c.tensor("A"), b = c.tensor("B");
  require_square(c, a);
  c.expect(c.dtype(b) == c.dtype(a), "its two tensors are of different dtypes");
  const int rank = c.rank(a);
  const bool vector = c.rank(b) == rank - 1;
  if (vector) b = c.unsqueeze(b, {rank - 1});
  bool alike = c.rank(b) == rank;
  for (std::size_t axis = 0; alike && axis + 2 < static_cast<std::size_t>(rank); ++axis) {
    alike = c.dims(a)[axis] == c.dims(b)[axis];
  }
  if (!alike) c.refuse("it broadcasts its matrices", "expand both to the same leading sizes before solving");
  for (int index = 1; index < c.output_count(); ++index) {
    if (c.result_used(index)) c.refuse("ONNX has no LU decomposition", "use the solution only");
  }
  const bool left = c.flag("left");
  Val x = solve(c, left ? a : transposed(c, a), left ? b : transposed(c, b));
  if (!left) x = transposed(c, c.typed(x, c.output_dtype(), c.dims(transposed(c, b))));
  if (vector) x = c.squeeze(x, {rank - 1});
  std::vector<Val> results(static_cast<std::size_t>(c.output_count()), absent);
  results.front() = x;
  c.yield(results);
}

const OpEntry kSolve[] = {
    {"aten::_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor "
     "LU, Tensor pivots, Tensor info)",
     linalg_solve},
    {"aten::inverse(Tensor self) -> Tensor", inverse},
    {"aten::linalg_inv(Tensor A) -> Tensor", inv},
    {"aten::linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)", inv},
    {"aten::linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", linalg_solve},
    {"aten::linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor "
     "info)",
     linalg_solve},
};

}  // namespace

OpFamily solve_ops() { return kSolve; }

}  // namespace whence::convert
