// Parts of a tensor along an axis, and tensors with a part replaced: slice, select, roll, flip, unfold, and the scatter
// forms that replace in-place writes to slices.
#include <algorithm>
#include <limits>

#include "annotator/convert/axes.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/window_indices.h"

namespace whence::convert {
namespace {

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();  // "to the end", in PyTorch and in ONNX

// start:end:step along one axis, as in Python: negative indices count from the end, indices out of range are clamped.
// ONNX Slice does the same.
struct Range {
  std::int64_t axis = 0;
  Size start = 0, end = kEnd;
  Size step = std::int64_t{1};
};

// Wraps and clamps a known index if the size of the axis is known; returns any other index unchanged.
Size position(Ctx& c, const Size& at, std::optional<std::int64_t> axis_size) {
  const auto known = c.static_size(at);
  if (!known) return at;
  if (!axis_size) return *known;
  return std::min(std::max<std::int64_t>(*known < 0 ? *known + *axis_size : *known, 0), *axis_size);
}

// Reads the range of an operator with arguments dim, start, end and step.
Range range_argument(Ctx& c, Val x) {
  Range range;
  range.axis = c.axis(c.integer("dim"), c.rank(x));
  const auto axis_size = c.static_dim(x, range.axis);
  range.start = position(c, c.has("start") ? c.size("start") : Size{0}, axis_size);
  range.end = position(c, c.has("end") ? c.size("end") : Size{kEnd}, axis_size);
  if (axis_size && range.end == Size{*axis_size}) range.end = kEnd;
  range.step = c.size("step");
  if (const auto step = c.static_size(range.step)) range.step = *step;
  return range;
}

bool is_all(const Range& range) { return range.start == Size{0} && range.end == Size{kEnd} && range.step == Size{1}; }

Val sliced(Ctx& c, Val x, const Range& range) {
  if (is_all(range)) return x;
  std::vector<Val> inputs{x, c.to_vector({range.start}), c.to_vector({range.end}), c.constant_ints({range.axis})};
  if (range.step != Size{1}) inputs.push_back(c.to_vector({range.step}));
  return c.emit("Slice", inputs);
}

void slice(Ctx& c) {
  const Val x = c.tensor("self");
  c.yield(sliced(c, x, range_argument(c, x)));
}

// Returns start + length, or "to the end" if a start counted from the end reaches it.
Size end_of(Ctx& c, const Size& start, const Size& length) {
  const auto from = c.static_size(start), count = c.static_size(length);
  if (from && count) return *from < 0 && *from + *count == 0 ? kEnd : *from + *count;
  return c.emit("Add", {c.to_scalar_value(start), c.to_scalar_value(length)});
}

void narrow(Ctx& c) {
  const Val x = c.tensor("self");
  const Size start = c.size("start"), length = c.size("length");
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x));
  const auto from = c.static_size(start);
  if (from && (*from >= 0 || c.static_size(length))) {
    return c.yield(sliced(c, x, {axis, start, end_of(c, start, length)}));
  }
  // The start may count from the end, and its sum with the length may be 0, which as an end means the beginning.
  c.yield(sliced(c, sliced(c, x, {axis, start, kEnd}), {axis, 0, length}));
}

// The slice at `index`, without that axis.
void select(Ctx& c) {
  const Val x = c.tensor("self");
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x));
  c.yield(c.emit("Gather", {x, c.to_scalar_value(c.size("index"))}, {{"axis", axis}}));
}

// ---- order ------------------------------------------------------------------------------------------------------

// Reverses the axes: slices backwards from the last element to the first.
Val flipped(Ctx& c, Val x, const Ints& axes) {
  const std::size_t n = axes.size();
  if (n == 0) return x;
  return c.emit("Slice", {x, c.constant_ints(Ints(n, -1)), c.constant_ints(Ints(n, -kEnd)), c.constant_ints(axes),
                          c.constant_ints(Ints(n, -1))});
}

void flip(Ctx& c) {
  const Val x = c.tensor("self");
  if (c.rank(x) == 0) return c.yield(x);
  Ints axes = c.integers("dims");
  for (std::int64_t& axis : axes) axis = c.axis(axis, c.rank(x));
  c.yield(flipped(c, x, axes));
}
void fliplr(Ctx& c) { c.yield(flipped(c, c.tensor("self"), {1})); }
void flipud(Ctx& c) { c.yield(flipped(c, c.tensor("self"), {0})); }

// Rotates by k quarter turns from the first axis towards the second; a quarter turn is a flip and a transpose.
void rot90(Ctx& c) {
  const Val x = c.tensor("self");
  const int rank = c.rank(x);
  const Ints dims = c.integers("dims");
  c.expect(dims.size() == 2, "dims must name two different axes");
  const std::int64_t first = c.axis(dims[0], rank), second = c.axis(dims[1], rank);
  const std::int64_t quarters = ((c.integer("k") % 4) + 4) % 4;
  c.expect(first != second, "dims must name two different axes");
  if (quarters == 0) return c.yield(x);
  if (quarters == 2) return c.yield(flipped(c, x, {first, second}));
  c.yield(c.transpose(flipped(c, x, {quarters == 1 ? second : first}), exchanged_axes(rank, first, second)));
}

// Returns the index at which reading starts if the elements of an axis move `shift` positions forward. A shift by one
// gives -1 or 1 for any size; larger shifts wrap around.
Size roll_start(Ctx& c, const Size& shift, std::optional<std::int64_t> axis_size, Val x, std::int64_t axis) {
  const auto known_shift = c.static_size(shift);
  if (known_shift && axis_size) return *axis_size == 0 ? 0 : (*axis_size - *known_shift % *axis_size) % *axis_size;
  if (known_shift && std::abs(*known_shift) <= 1) return -*known_shift;
  const Val size = c.emit("Max", {c.dim_of(x, axis), c.constant_int(1)});  // avoids a division by 0
  return c.emit("Mod", {c.emit("Neg", {c.to_scalar_value(shift)}), size});
}

Val rolled(Ctx& c, Val x, const Size& shift, std::optional<std::int64_t> axis_size, std::int64_t axis) {
  const Size start = roll_start(c, shift, axis_size, x, axis);
  if (start == Size{0}) return x;
  return c.emit("Concat", {sliced(c, x, {axis, start, kEnd}), sliced(c, x, {axis, 0, start})}, {{"axis", axis}});
}

// Moves elements `shifts` positions along `dims`, wrapping around at the end; without dims, in the flattened tensor.
void roll(Ctx& c) {
  Val x = c.tensor("self");
  const std::vector<Size> shifts = c.sizes("shifts");
  const std::vector<Dim> dims = c.dims(x);
  const Ints axes = c.integers("dims");
  c.expect(shifts.size() == std::max<std::size_t>(axes.size(), 1), "shifts and dims must have the same length");
  if (axes.empty()) {
    if (dims.empty()) return c.yield(x);
    std::optional<std::int64_t> count = 1;
    for (const Dim& dim : dims) count = count && dim.is_static() ? std::optional(*count * dim.size) : std::nullopt;
    const std::vector<Dim> line{Dim{count.value_or(-1), !count}};
    const Val flat = dims.size() == 1 ? x : c.typed(c.reshape(x, {-1}), c.dtype(x), line);
    const Val moved = rolled(c, flat, shifts[0], count, 0);
    return c.yield(dims.size() == 1 ? moved : c.reshape_to_output(moved));
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = c.axis(axes[i], static_cast<int>(dims.size()));
    const auto axis_size = c.static_dim(x, axis);
    x = c.typed(rolled(c, x, shifts[i], axis_size, axis), c.output_dtype(), dims);
  }
  c.yield(x);
}

// Windows of `size` elements, `step` apart, as a new last axis: a Gather with the indices of the windows.
void unfold(Ctx& c) {
  const Val x = c.tensor("self");
  const int rank = c.rank(x);
  const std::int64_t size = c.integer("size"), step = c.integer("step");
  if (rank == 0) return c.yield(c.unsqueeze(x, {0}));
  const std::int64_t axis = c.axis(c.integer("dimension"), rank);
  const auto axis_size = c.static_dim(x, axis);
  c.expect(step > 0 && size >= 0, "size must be >= 0 and step > 0");
  const Val indices = window_indices(c, x, axis, axis_size, {size, 1, step}, IndexOrder::windows_first);
  const Val windows = c.emit("Gather", {x, indices}, {{"axis", axis}});
  Ints order;
  for (std::int64_t i = 0; i <= rank; ++i) {
    if (i != axis + 1) order.push_back(i);
  }
  order.push_back(axis + 1);
  c.yield(c.transpose(windows, order));
}

// ---- replaced parts ---------------------------------------------------------------------------------------------

// Replaces every step-th element of x[range] with `src`. Slices iota(axis) the same way as x to get the indices: an end
// may count from the back or be out of range.
Val replaced_strided(Ctx& c, Val x, Val src, const Range& range) {
  const Val every = c.emit("Range", {c.constant_int(0), c.dim_of(x, range.axis), c.constant_int(1)});
  Val indices = sliced(c, every, {0, range.start, range.end, range.step});
  Ints trailing;
  for (int i = 1; i < c.rank(x) - range.axis; ++i) trailing.push_back(i);
  indices = c.emit("Expand", {c.unsqueeze(indices, trailing), c.emit("Shape", {src})});
  return c.emit("ScatterElements", {x, indices, src}, {{"axis", range.axis}});
}

// Returns the part after x[range]. `before` is the part before it, and `src` replaces it. If the end of the range is
// before its start, the range is empty and the part after begins at the start.
Val part_after(Ctx& c, Val x, Val before, Val src, const Range& range) {
  const auto start = c.static_size(range.start), end = c.static_size(range.end);
  const auto from = [&](Val tensor, const Size& at) { return sliced(c, tensor, {range.axis, at, kEnd}); };
  if (start == 0 || (start && end && (*start < 0) == (*end < 0))) return from(x, range.end);
  // One counts from the front, the other from the back: which of them comes first depends on the size.
  if (start && end) return from(from(x, std::max(*start, *end)), std::min(*start, *end));
  const Val size_before = c.dim_of(before, range.axis);
  return from(x, c.emit("Add", {size_before, c.dim_of(src, range.axis)}));
}

// Replaces x[range] with `src`: concatenates the part before, src and the part after.
Val replaced(Ctx& c, Val x, Val src, const Range& range) {
  if (is_all(range)) return src;
  if (range.step != Size{1}) return replaced_strided(c, x, src, range);
  std::vector<Val> parts;
  if (range.start != Size{0}) parts.push_back(sliced(c, x, {range.axis, 0, range.start}));
  parts.push_back(src);
  if (range.end != Size{kEnd}) parts.push_back(part_after(c, x, parts.front(), src, range));
  return c.emit("Concat", parts, {{"axis", range.axis}});
}

void slice_scatter(Ctx& c) {
  const Val x = c.tensor("self"), src = c.cast(c.tensor("src"), c.output_dtype());
  const Range range = range_argument(c, x);
  const auto start = c.static_size(range.start), end = c.static_size(range.end);
  if (start && end && (*start < 0) == (*end < 0) && *start >= *end) return c.yield(x);  // empty for any size
  c.yield(replaced(c, x, src, range));
}

// A mask along an axis, [axis_size, 1, ..] with `trailing` ones: true at `index`. Returns absent if the mask is too
// large for a constant, or if Where does not accept `dtype` without a cast.
Val index_mask(Ctx& c, const Size& index, std::optional<std::int64_t> axis_size, std::int64_t trailing, DType dtype) {
  constexpr std::int64_t max_table = 4096;
  const auto place = c.static_size(index);
  const bool narrow = dtype == DType::boolean || (is_integral(dtype) && size_of(dtype) < 4);
  if (!place || !axis_size || *axis_size > max_table || *place < 0 || *place >= *axis_size || narrow) return absent;
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(*axis_size), 0);
  mask[static_cast<std::size_t>(*place)] = 1;
  Ints shape(static_cast<std::size_t>(trailing) + 1, 1);
  shape[0] = *axis_size;
  return c.constant_tensor({DType::boolean, shape, Bytes::copy_of(mask.data(), mask.size())});
}

// Replaces x[index] along dim with `src`.
void select_scatter(Ctx& c) {
  const Val x = c.tensor("self"), src = c.cast(c.tensor("src"), c.output_dtype());
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x));
  const Size index = position(c, c.size("index"), c.static_dim(x, axis));
  if (axis == 0) return c.yield(c.emit("ScatterND", {x, c.to_vector({index}), src}));
  const Val mask = index_mask(c, index, c.static_dim(x, axis), c.rank(x) - 1 - axis, c.output_dtype());
  if (mask) return c.yield(c.emit("Where", {mask, c.unsqueeze(src, {axis}), x}));
  Range range{axis, index, end_of(c, index, 1)};
  if (range.end == Size{c.static_dim(x, axis).value_or(-1)}) range.end = kEnd;
  c.yield(replaced(c, x, c.unsqueeze(src, {axis}), range));
}

const OpEntry kSlicing[] = {
    {"aten::flip(Tensor self, int[] dims) -> Tensor", flip},
    {"aten::fliplr(Tensor self) -> Tensor", fliplr},
    {"aten::flipud(Tensor self) -> Tensor", flipud},
    {"aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)", narrow},
    {"aten::narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)", narrow},
    {"aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", roll},
    {"aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor", rot90},
    {"aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)", select},
    {"aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor", select_scatter},
    {"aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)",
     slice},
    {"aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> "
     "Tensor",
     slice_scatter},
    {"aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", unfold},
};

}  // namespace

OpFamily slicing_ops() { return kSlicing; }

}  // namespace whence::convert
