// _grouped_mm: one matrix product for each group of rows, as in mixtures of experts. `offs` holds the end of each group
// along the grouped axis; usually a router computes it at run time. ONNX has no ragged product, so every group
// multiplies everything, and a mask selects the result of each position's own group. This takes G times the arithmetic
// of a ragged product, but needs no loop and supports any routing.
#include <numeric>
#include <vector>

#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"

namespace whence::convert {
namespace {

// [G, length]: true if position j belongs to group g, that is, if exactly g groups end at or before j.
Val membership(Ctx& c, const Size& length, std::int64_t groups) {
  const Val ends = c.unsqueeze(c.cast(c.tensor("offs"), DType::int64), {1});
  const Val position = c.emit("Range", {c.constant_int(0), c.to_scalar_value(length), c.constant_int(1)});
  const Val passed = c.typed(c.emit("GreaterOrEqual", {position, ends}), DType::boolean);
  const Val group = reduce(c, "ReduceSum", c.cast(passed, DType::int64), {0}, true);
  Ints numbers(c.table_size({groups}));
  std::iota(numbers.begin(), numbers.end(), 0);
  const Val column = c.constant_tensor(
      {DType::int64, {groups, 1}, Bytes::copy_of(numbers.data(), numbers.size() * sizeof numbers[0])});
  return c.emit("Equal", {group, column});
}

Size extent(Ctx& c, Val x, std::int64_t axis) {
  if (const auto size = c.static_dim(x, axis)) return *size;
  return c.dim_of(x, axis);
}

// Grouped by rows (self [M, K], mat2 [G, K, N]), by columns (self [G, M, K], mat2 [K, N]) or by the contracted axis
// (self [M, K], mat2 [K, N], result [G, M, N]).
void multiply_groups(Ctx& c, Val a, Val b) {
  const bool by_rows = c.rank(b) == 3, by_columns = c.rank(a) == 3;
  auto groups = c.static_dim(c.tensor("offs"), 0);  // unknown if the router computes it
  if (!groups && (by_rows || by_columns)) groups = c.static_dim(by_rows ? b : a, 0);
  if (!groups)
    c.refuse("a dynamic number of groups is not supported", "keep the number of experts fixed when exporting");

  const Val mask = membership(c, by_columns ? extent(c, b, 1) : extent(c, a, by_rows ? 0 : 1), *groups);
  const Val zero = c.constant_number(0, c.dtype(a));
  if (!by_rows && !by_columns) {
    return c.yield(c.emit("MatMul", {c.emit("Where", {c.unsqueeze(mask, {1}), a, zero}), b}));
  }
  const Val own = c.unsqueeze(mask, {by_rows ? 2 : 1});
  const Val picked = c.emit("Where", {own, c.emit("MatMul", {a, b}), zero});
  c.yield(reduce(c, "ReduceSum", picked, {0}, false));
}

void grouped_mm(Ctx& c) {
  const Val a = c.tensor("self"), b = c.tensor("mat2");
  if (c.has("bias")) c.refuse("_grouped_mm with a bias is not supported", "add the bias to the result");
  if (!c.has("offs")) return c.yield(c.emit("MatMul", {a, b}));
  multiply_groups(c, a, b);
}

// The operator that transformers registers for mixtures of experts if PyTorch's own kernel does not run. It groups by
// rows.
void transformers_grouped_mm(Ctx& c) { multiply_groups(c, c.tensor("input"), c.tensor("weight")); }

const OpEntry kGroupedMatmul[] = {
    {"aten::_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> "
     "Tensor",
     grouped_mm},
    {"transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor", transformers_grouped_mm},
};

}  // namespace

OpFamily grouped_matmul_ops() { return kGroupedMatmul; }

}  // namespace whence::convert
