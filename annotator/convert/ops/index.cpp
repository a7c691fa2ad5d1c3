// Reads elements by index or mask: indexing with tensors, gather, where, nonzero.
#include "annotator/convert/advanced_index.h"
#include "annotator/convert/broadcast.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/select.h"

namespace whence::convert {
namespace {

// ---- by index ---------------------------------------------------------------------------------------------------

// The elements where `mask` is true, along one new axis. Returns absent if the mask needs the general form: several
// axes, the first of which is not axis 0.
Val masked_elements(Ctx& c, Val x, const IndexedAxis& mask) {
  const int covered = c.rank(mask.index);
  if (covered == 1) return c.emit("Compress", {x, mask.index}, {{"axis", mask.axis}});
  if (covered == c.rank(x)) return c.emit("Compress", {x, c.emit("Reshape", {mask.index, c.constant_ints({-1})})});
  return mask.axis == 0 ? c.emit("GatherND", {x, mask_positions(c, mask.index)}) : absent;
}

// x[i, :, j, ...]: one entry per axis, None for `:`.
void index(Ctx& c) {
  const Val x = c.tensor("self");
  const std::vector<Val> indices = c.optional_tensors("indices");
  if (const auto mask = only_mask(c, indices)) {
    if (const Val elements = masked_elements(c, x, *mask)) return c.yield(elements);
  }
  const std::vector<IndexedAxis> axes = indexed_axes(c, indices);
  if (axes.empty()) return c.yield(x);
  c.expect(axes.back().axis < c.rank(x), "self must have an axis for each index");
  if (axes.size() == 1) return c.yield(c.emit("Gather", {x, axes[0].index}, {{"axis", axes[0].axis}}));

  const int rank = c.rank(x);
  const IndexLayout layout = index_layout(c, axes, rank);
  const int result_rank = rank - static_cast<int>(axes.size()) + layout.index_rank;
  const Val found = c.emit("GatherND", {c.transpose(x, layout.to_front), index_table(c, axes)});
  c.yield(c.transpose(found, result_order(layout, result_rank)));
}

// The index is a vector, or a scalar, which counts as one element.
void index_select(Ctx& c) {
  const Val x = c.tensor("self");
  Val index = c.tensor("index");
  if (c.rank(x) == 0) return c.yield(x);
  if (c.rank(index) == 0) index = c.unsqueeze(index, {0});
  c.yield(c.emit("Gather", {x, index}, {{"axis", c.axis(c.integer("dim"), c.rank(x))}}));
}

// result[i, j] = self[i, index[i, j]] for dim 1; other dims accordingly.
Val gathered(Ctx& c, Val x, Val index, std::int64_t dim) {
  if (c.rank(x) == 0) return c.rank(index) == 0 ? x : c.unsqueeze(x, {0});
  if (c.rank(index) == 0) index = c.unsqueeze(index, {0});
  return c.emit("GatherElements", {x, index}, {{"axis", c.axis(dim, c.rank(x))}});
}

void gather(Ctx& c) { c.yield(gathered(c, c.tensor("self"), c.tensor("index"), c.integer("dim"))); }

Val flat(Ctx& c, Val x) { return c.rank(x) == 1 ? x : c.emit("Reshape", {x, c.constant_ints({-1})}); }

// gather, after broadcasting both tensors against each other except along dim; without dim, both are flattened.
void take_along_dim(Ctx& c) {
  Val x = c.tensor("self"), index = c.tensor("indices");
  if (!c.has("dim")) return c.yield(c.emit("Gather", {flat(c, x), flat(c, index)}));
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x));
  const std::vector<Size> of_x = shape_of(c, x), of_index = shape_of(c, index);
  c.expect(of_x.size() == of_index.size(), "indices must have as many axes as self");
  // Expand leaves an axis unchanged if its target size is 1.
  std::vector<Size> wider_x(of_x.size(), Size{1}), wider_index = wider_x;
  for (std::size_t i = 0; i < of_x.size(); ++i) {
    if (static_cast<std::int64_t>(i) == axis || of_x[i] == of_index[i]) continue;
    if (of_x[i] == Size{1}) wider_x[i] = of_index[i];
    if (of_index[i] == Size{1}) wider_index[i] = of_x[i];
  }
  const std::vector<Size> as_it_is(of_x.size(), Size{1});
  if (wider_x != as_it_is) x = c.emit("Expand", {x, c.to_vector(wider_x)});
  if (wider_index != as_it_is) index = c.emit("Expand", {index, c.to_vector(wider_index)});
  c.yield(gathered(c, x, index, axis));
}

// Indices into the flattened tensor.
void take(Ctx& c) { c.yield(c.emit("Gather", {flat(c, c.tensor("self")), c.tensor("index")})); }

// ---- by mask ----------------------------------------------------------------------------------------------------

// condition ? a : b, all broadcast against each other; the dtypes of a and b are promoted.
void where(Ctx& c) {
  const DType dtype = c.output_dtype();
  const Val condition = c.cast(c.tensor("condition"), DType::boolean);
  c.yield(select(c, condition, c.cast(c.tensor("self"), dtype), c.cast(c.tensor("other"), dtype)));
}

void masked_fill(Ctx& c) {
  const Val mask = c.cast(c.tensor("mask"), DType::boolean);
  c.yield(select(c, mask, c.scalar("value", c.output_dtype()), c.tensor("self")));
}

void masked_fill_tensor(Ctx& c) {
  const Val mask = c.cast(c.tensor("mask"), DType::boolean), value = c.cast(c.tensor("value"), c.output_dtype());
  c.yield(select(c, mask, value, c.tensor("self")));
}

// The elements where the mask is true, as a vector.
void masked_select(Ctx& c) {
  const Val x = c.tensor("self"), mask = c.tensor("mask");
  if (c.rank(x) == 0 && c.rank(mask) == 0) {
    return c.yield(c.emit("Compress", {c.unsqueeze(x, {0}), c.unsqueeze(mask, {0})}));
  }
  const Val condition = flat(c, broadcast(c, mask, {x}));
  c.yield(c.emit("Compress", {broadcast(c, x, {mask}), condition}));
}

// The indices of the elements that are not zero: [n, rank].
void nonzero(Ctx& c) {
  const Val x = c.tensor("self");
  if (c.rank(x) > 0) return c.yield(mask_positions(c, x));
  // A scalar has no axes, but counts as one element or none.
  const Val positions = mask_positions(c, c.unsqueeze(x, {0}));
  c.yield(c.emit("Slice", {positions, c.constant_ints({0}), c.constant_ints({0}), c.constant_ints({1})}));
}

// Yields `size` rows of indices: missing rows are filled, further ones are cut off.
void nonzero_static(Ctx& c) {
  const Val x = c.tensor("self");
  const std::int64_t size = c.integer("size"), fill = c.integer("fill_value");
  if (c.rank(x) == 0) c.refuse("nonzero_static of a scalar is not supported", "pass x.unsqueeze(0)");
  const Val filler = c.emit("Expand", {c.constant_int(fill), c.constant_ints({size, c.rank(x)})});
  const Val all = c.emit("Concat", {mask_positions(c, x), filler}, {{"axis", 0}});
  c.yield(c.emit("Slice", {all, c.constant_ints({0}), c.constant_ints({size}), c.constant_ints({0})}));
}

// Like nonzero, with one vector for each axis. A scalar counts as a vector.
void nonzero_by_axis(Ctx& c, Val x) {
  const Val positions = c.emit("NonZero", {nonzero_operand(c, c.rank(x) == 0 ? c.unsqueeze(x, {0}) : x)});
  std::vector<Val> results;
  for (int i = 0; i < c.output_count(); ++i) results.push_back(c.emit("Gather", {positions, c.constant_int(i)}));
  c.yield(results);
}
void nonzero_numpy(Ctx& c) { nonzero_by_axis(c, c.tensor("self")); }
void where_nonzero(Ctx& c) { nonzero_by_axis(c, c.tensor("condition")); }

const OpEntry kIndex[] = {
    {"aten::_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", index},
    {"aten::_unsafe_index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor", index},
    {"aten::argwhere(Tensor self) -> Tensor", nonzero},
    {"aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", gather},
    {"aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", index},
    {"aten::index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor", index},
    {"aten::index_select(Tensor self, int dim, Tensor index) -> Tensor", index_select},
    {"aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", masked_fill},
    {"aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", masked_fill_tensor},
    {"aten::masked_select(Tensor self, Tensor mask) -> Tensor", masked_select},
    {"aten::nonzero(Tensor self) -> Tensor", nonzero},
    {"aten::nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor", nonzero_static},
    {"aten::nonzero_numpy(Tensor self) -> Tensor[]", nonzero_numpy},
    {"aten::take(Tensor self, Tensor index) -> Tensor", take},
    {"aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", take_along_dim},
    {"aten::where(Tensor condition) -> Tensor[]", where_nonzero},
    {"aten::where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor", where},
    {"aten::where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor", where},
    {"aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor", where},
    {"aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", where},
};

}  // namespace

OpFamily index_ops() { return kIndex; }

}  // namespace whence::convert
