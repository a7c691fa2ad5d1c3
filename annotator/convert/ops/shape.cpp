// Changes shapes: views, axes added, dropped and exchanged, broadcasting and tiling.
#include <algorithm>
#include <string>
#include <utility>

#include "annotator/convert/axes.h"
#include "annotator/convert/broadcast.h"
#include "annotator/convert/convert.h"
#include "annotator/convert/nonnegative.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/uses.h"
#include "annotator/program/program_facts.h"
#include "schema/element_count.h"

namespace whence::convert {

namespace {

// ---- reshaping --------------------------------------------------------------------------------------------------

// Reshapes to the recorded shape if at most one of its axes is dynamic, which Reshape infers. Otherwise reshapes to the
// requested sizes, some of them computed at run time.
void reshape(Ctx& c, std::string_view sizes) {
  const Val x = c.tensor("self");
  const auto target = c.output_dims();
  const auto dynamic = [](const Dim& dim) { return !dim.is_static(); };
  const bool empty = target && std::ranges::find(*target, Dim{0, false, none_id}) != target->end();
  if (target && !empty && std::count_if(target->begin(), target->end(), dynamic) <= 1) {
    return c.yield(c.reshape_to_output(x));
  }
  std::vector<Size> shape = c.sizes(sizes);
  // Reshape cannot infer a size of an empty tensor.
  for (std::size_t axis = 0; empty && axis < target->size(); ++axis) {
    if ((*target)[axis].is_static()) shape[axis] = (*target)[axis].size;
  }
  c.yield(c.reshape(x, shape));
}
void reshape(Ctx& c) { reshape(c, "shape"); }
void view(Ctx& c) { reshape(c, "size"); }

// The shape argument is a tensor: torch.onnx.operators.reshape_from_tensor_shape.
void reshape_from_tensor(Ctx& c) {
  c.yield(c.emit("Reshape", {c.tensor("self"), c.cast(c.tensor("shape"), DType::int64)}));
}

// Takes the shape of another tensor.
void reshape_as(Ctx& c) { c.yield(c.reshape(c.tensor("self"), shape_of(c, c.tensor("other")))); }

// Returns false if an axis other than `first` to `last` may have size 0: then Reshape can infer no size. Before
// allowzero it also accepts no computed 0, so there is no alternative.
bool can_infer(Ctx& c, Val x, std::int64_t first, std::int64_t last) {
  if (c.opset() < first_opset_with_allowzero) return true;
  const Program& program = c.session().program();
  const auto may_be_empty = [&](const Dim& dim) { return may_be(program, length_of(program.symbols, dim), 0); };
  const Dims dims = c.dims(x);
  return std::none_of(dims.begin(), dims.begin() + first, may_be_empty) &&
         std::none_of(dims.begin() + last + 1, dims.end(), may_be_empty);
}

// The product of the sizes of axes `first` to `last`.
Size joined_size(Ctx& c, Val x, std::int64_t first, std::int64_t last) {
  std::int64_t known = 1;
  std::optional<Val> product;
  for (std::int64_t axis = first; axis <= last; ++axis) {
    if (const auto size = c.static_dim(x, axis)) {
      known *= *size;
    } else {
      product = product ? c.emit("Mul", {*product, c.dim_of(x, axis)}) : c.dim_of(x, axis);
    }
  }
  if (!product) return known;
  return known == 1 ? *product : c.emit("Mul", {*product, c.constant_int(known)});
}

// Merges axes start_dim..end_dim. Flatten suffices if the result is a matrix.
void flatten(Ctx& c) {
  const Val x = c.tensor("self");
  const int rank = c.rank(x);
  if (rank == 0) return c.yield(c.unsqueeze(x, {0}));
  const std::int64_t start = c.axis(c.integer("start_dim"), rank), end = c.axis(c.integer("end_dim"), rank);
  if (start == end) return c.yield(x);
  if (start == 1 && end == rank - 1) return c.yield(c.emit("Flatten", {x}));
  std::vector<Size> shape;
  for (std::int64_t axis = 0; axis < start; ++axis) shape.push_back(size_of_axis(c, x, axis));
  shape.push_back(can_infer(c, x, start, end) ? Size{-1} : joined_size(c, x, start, end));
  for (std::int64_t axis = end + 1; axis < rank; ++axis) shape.push_back(size_of_axis(c, x, axis));
  c.yield(c.reshape(x, shape));
}

void ravel(Ctx& c) { c.yield(c.emit("Reshape", {c.tensor("self"), c.constant_ints({-1})})); }

// Splits axis dim into several, of `sizes` (one may be -1).
void unflatten(Ctx& c) {
  const Val x = c.tensor("self");
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x));
  std::vector<Size> shape = shape_of(c, x);
  std::vector<Size> parts = c.sizes("sizes");
  // Computes the inferred part if it is known: Reshape cannot infer it next to a size of 0.
  std::int64_t others = 1;
  bool known = true;
  Size* open = nullptr;
  for (Size& part : parts) {
    const auto size = c.static_size(part);
    known = known && size;
    if (size == std::int64_t{-1}) {
      open = &part;
    } else {
      others *= size.value_or(1);
    }
  }
  const auto axis_size = c.static_dim(x, axis);
  if (open != nullptr && known && axis_size && others > 0) *open = *axis_size / others;
  if (open != nullptr && known && others == 1) *open = shape[static_cast<std::size_t>(axis)];
  if (open != nullptr && known && !axis_size && others > 1 && !can_infer(c, x, axis, axis)) {
    *open = c.emit("Div", {c.dim_of(x, axis), c.constant_int(others)});
  }
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, parts.begin(), parts.end());
  c.yield(c.reshape(x, shape));
}

// Returns the axes from the outermost one in memory to the innermost; axes of size 1, which may have any stride, come
// first. Returns nothing if the elements have gaps or overlaps, or if strides are unknown.
std::optional<Ints> order_in_memory(Ctx& c, const std::vector<Size>& sizes, const std::vector<Size>& strides) {
  const auto axis_of = [](std::int64_t axis) { return static_cast<std::size_t>(axis); };
  const auto alone = [&](std::int64_t axis) { return c.static_size(sizes[axis_of(axis)]) == std::int64_t{1}; };
  Ints order = axis_order(static_cast<int>(sizes.size()));
  const auto rest = std::stable_partition(order.begin(), order.end(), alone);
  if (!std::all_of(rest, order.end(), [&](std::int64_t axis) { return c.static_size(strides[axis_of(axis)]); }))
    return {};
  std::stable_sort(rest, order.end(), [&](std::int64_t a, std::int64_t b) {
    return *c.static_size(strides[axis_of(a)]) > *c.static_size(strides[axis_of(b)]);
  });
  std::int64_t dense = 1;
  for (auto axis = order.end(); axis != rest;) {
    --axis;
    const auto size = c.static_size(sizes[axis_of(*axis)]);
    if (*c.static_size(strides[axis_of(*axis)]) != dense || (!size && axis != rest)) return {};
    if (__builtin_mul_overflow(dense, size.value_or(1), &dense)) return {};
  }
  return order;
}

// Returns true if x has as many elements as the result, for all values of the dynamic sizes.
bool has_all_elements(Ctx& c, Val x) {
  const Program& program = c.session().program();
  const auto elements = [&](const std::vector<Dim>& dims) {
    whence::Size product = 1;
    for (const Dim& dim : dims) product = product * length_of(program.symbols, dim);
    return product;
  };
  const auto& result = program.values[c.node().outputs.front()].type.dims;
  return result && certainly_equal(elements(*result), elements(c.dims(x)));
}

// All elements of x, once each, in another shape and order: the form of PyTorch's memory formats.
std::optional<Val> as_reshaped(Ctx& c, Val x, const std::vector<Size>& sizes) {
  const auto order = order_in_memory(c, sizes, c.sizes("stride"));
  if (!order) return {};
  if (!has_all_elements(c, x)) return {};
  std::vector<Size> shape;
  Ints back(order->size());
  for (std::size_t i = 0; i < order->size(); ++i) {
    shape.push_back(sizes[static_cast<std::size_t>((*order)[i])]);
    back[static_cast<std::size_t>((*order)[i])] = static_cast<std::int64_t>(i);
  }
  return c.transpose(c.reshape(x, shape), back);
}

// Element i of the result is at offset + sum of index * stride among the elements of self in memory.
void as_strided(Ctx& c) {
  const std::vector<Size> size = c.sizes("size"), stride = c.sizes("stride");
  c.expect(size.size() == stride.size(), "it must have a stride for each size");
  const Val x = c.tensor("self");
  const std::int64_t offset = c.has("storage_offset") ? c.integer("storage_offset") : 0;
  c.expect(offset >= 0, "storage_offset must not be negative");
  if (const auto all = offset == 0 ? as_reshaped(c, x, size) : std::nullopt) return c.yield(*all);
  // Axes of known size and stride form a constant table, with one entry for every other axis; indices along those are
  // added.
  Ints known_size(size.size(), 1), known_stride(size.size(), 0);
  std::vector<Val> added;
  std::int64_t count = 1, last = offset;
  for (std::size_t axis = 0; axis < size.size(); ++axis) {
    const auto elements = c.static_size(size[axis]), apart = c.static_size(stride[axis]);
    if (elements && apart) {
      std::int64_t reach = 0;
      const bool fits = !__builtin_mul_overflow(std::max<std::int64_t>(*elements, 1) - 1, *apart, &reach) &&
                        !__builtin_add_overflow(last, reach, &last);
      c.expect(*elements >= 0 && *apart >= 0 && fits,
               "sizes and strides must not be negative and must stay within memory");
      known_size[axis] = *elements;
      known_stride[axis] = *apart;
      count = static_cast<std::int64_t>(c.table_size({count, *elements}));
      if (count > 1 << 20)
        c.refuse("as_strided with more than a million elements is not supported", "use unfold, reshape or slices");
      continue;
    }
    const Val numbers = c.emit("Range", {c.constant_int(0), c.to_scalar_value(size[axis]), c.constant_int(1)});
    Ints trailing;
    for (std::size_t other = axis + 1; other < size.size(); ++other)
      trailing.push_back(static_cast<std::int64_t>(other - axis));
    added.push_back(c.unsqueeze(c.emit("Mul", {numbers, c.to_scalar_value(stride[axis])}), trailing));
  }
  Ints indices(count);
  for (std::int64_t i = 0; i < count; ++i) {
    indices[i] = offset;
    std::int64_t rest = i;
    for (std::size_t axis = size.size(); axis-- > 0; rest /= known_size[axis]) {
      indices[i] += rest % known_size[axis] * known_stride[axis];
    }
  }
  Val index = c.constant_tensor(
      {DType::int64, known_size, Bytes::copy_of(indices.data(), indices.size() * sizeof(std::int64_t))});
  for (const Val each : added) index = c.emit("Add", {index, each});
  c.yield(c.emit("Gather", {c.emit("Reshape", {x, c.constant_ints({-1})}), index}));
}

// ---- axes added and dropped -------------------------------------------------------------------------------------

void unsqueeze(Ctx& c) {
  const Val x = c.tensor("self");
  c.yield(c.unsqueeze(x, {c.axis(c.integer("dim"), c.rank(x) + 1)}));
}

// Returns true if the axis may be 1 in one run and more in another.
bool may_be_one(Ctx& c, Val x, std::int64_t axis) {
  const Dim& dim = c.dims(x)[axis];
  return !dim.is_static() && may_be(c.session().program(), length_of(c.session().program().symbols, dim), 1);
}

// Returns true if the operation's result is an output of the program and nothing else reads it, so that its rank may
// differ from run to run.
bool is_only_output(Ctx& c) {
  const Program& program = c.session().program();
  const ValueId result = c.node().outputs.front();
  const bool output = std::ranges::any_of(program.outputs, [&](const ProgramOutput& each) {
    const auto* value = each.value.as<ValueRef>();
    return value != nullptr && value->id == result;
  });
  return output &&
         std::ranges::all_of(c.session().uses().of(result), [](const ProgramUse& use) { return use.node == nullptr; });
}

// Drops those of `axes` that are 1 at run time. ONNX requires a rank for each output, so the file states the rank in
// the example, or else the rank without any of `axes`; runtimes also accept other ranks.
void squeeze_in_run(Ctx& c, Val x, const Ints& axes) {
  Val squeezed;
  if (std::ssize(axes) == c.rank(x)) {
    squeezed = c.emit("Squeeze", {x});
  } else {
    std::string requested(static_cast<std::size_t>(c.rank(x)), '\0');
    for (const std::int64_t axis : axes) requested[static_cast<std::size_t>(axis)] = 1;
    const Val mask = c.constant_tensor({DType::boolean, {c.rank(x)}, Bytes::owned(std::move(requested))});
    const Val shape = c.emit("Shape", {x});
    const Val dropped = c.emit("And", {c.emit("Equal", {shape, c.constant_ints({1})}), mask});
    const Val left = c.emit("Compress", {shape, c.emit("Not", {dropped})}, {{"axis", 0}});
    Attributes attributes;
    if (c.opset() >= 14) attributes.push_back({"allowzero", 1});
    squeezed = c.emit("Reshape", {x, left}, std::move(attributes));
  }
  if (!c.output_dims()) {
    std::vector<Dim> rest;
    for (std::int64_t axis = 0; axis < c.rank(x); ++axis) {
      const bool requested = std::ranges::find(axes, axis) != axes.end();
      if (!requested || c.static_dim(x, axis).value_or(1) != 1) rest.push_back(c.dims(x)[axis]);
    }
    c.typed(squeezed, c.dtype(x), std::move(rest));
  }
  c.yield(squeezed);
}

// Drops those of `axes` that have size 1. A dynamic axis is dropped if it was with the example inputs, which the rank
// of the result shows; an output of the program itself decides at run time. Squeeze fails at run time if a dropped axis
// is not 1.
void squeeze_ones(Ctx& c, Val x, const Ints& axes) {
  const auto uncertain = [&](std::int64_t axis) { return may_be_one(c, x, axis); };
  if (std::ranges::any_of(axes, uncertain) && is_only_output(c)) return squeeze_in_run(c, x, axes);
  Ints ones, dynamic, dynamic_ones;
  for (const std::int64_t axis : axes) {
    const auto size = c.static_dim(x, axis);
    if (size == 1) ones.push_back(axis);
    if (!size && !c.output_dims()) {
      c.refuse("the rank of the result depends on a dynamic size", "keep that axis fixed, or squeeze others by number");
    }
    if (!size) dynamic.push_back(axis);
    if (!size && c.dims(x)[axis].size == 1) dynamic_ones.push_back(axis);
  }
  if (const auto result = c.output_dims()) {
    const std::size_t dropped_count = c.dims(x).size() - std::min(c.dims(x).size(), result->size() + ones.size());
    // If no example run dropped an axis under a condition, all are: if x.size(0) == 1: x = x.squeeze(0).
    const Ints& dropped_axes = dropped_count == dynamic.size() ? dynamic : dynamic_ones;
    if (dropped_count == dropped_axes.size()) ones.insert(ones.end(), dropped_axes.begin(), dropped_axes.end());
  }
  std::sort(ones.begin(), ones.end());
  c.yield(ones.empty() ? x : c.squeeze(x, ones));
}

void squeeze(Ctx& c) {
  const Val x = c.tensor("self");
  squeeze_ones(c, x, axis_order(c.rank(x)));
}

// dim is one axis or several.
void squeeze_dims(Ctx& c) {
  const Val x = c.tensor("self");
  if (c.rank(x) == 0) return c.yield(x);
  Ints axes = c.integers("dim");
  for (std::int64_t& axis : axes) axis = c.axis(axis, c.rank(x));
  squeeze_ones(c, x, axes);
}

// Scalars become [1], [1, 1], [1, 1, 1]; vectors [1, n], [1, n, 1]; matrices [m, n, 1].
Val at_least(Ctx& c, Val x, int rank) {
  const int has = c.rank(x);
  if (has >= rank) return x;
  if (rank == 3 && has == 2) return c.unsqueeze(x, {2});
  if (rank == 3 && has == 1) return c.unsqueeze(x, {0, 2});
  return c.unsqueeze(x, axis_order(rank - has));
}
template <int rank>
void at_least(Ctx& c) {
  c.yield(at_least(c, c.tensor("self"), rank));
}
template <int rank>
void each_at_least(Ctx& c) {
  std::vector<Val> results;
  for (const Val x : c.tensors("tensors")) results.push_back(at_least(c, x, rank));
  c.yield(results);
}

// ---- axes exchanged ---------------------------------------------------------------------------------------------

void exchange(Ctx& c, Val x, std::int64_t a, std::int64_t b) {
  const int rank = c.rank(x);
  if (rank == 0) return c.yield(x);
  c.yield(c.transpose(x, exchanged_axes(rank, c.axis(a, rank), c.axis(b, rank))));
}
void transpose(Ctx& c) { exchange(c, c.tensor("self"), c.integer("dim0"), c.integer("dim1")); }
void matrix_transpose(Ctx& c) { exchange(c, c.tensor("self"), -2, -1); }

// Vectors and scalars equal their transpose.
void t(Ctx& c) {
  const Val x = c.tensor("self");
  if (c.rank(x) < 2) return c.yield(x);
  exchange(c, x, 0, 1);
}

void permute(Ctx& c) {
  const Val x = c.tensor("self");
  Ints order = c.integers("dims");
  for (std::int64_t& axis : order) axis = c.axis(axis, c.rank(x));
  c.yield(c.transpose(x, order));
}

void reverse_axes(Ctx& c) {
  const Val x = c.tensor("self");
  Ints order = axis_order(c.rank(x));
  std::reverse(order.begin(), order.end());
  c.yield(c.transpose(x, order));
}

// Moves axes `source` to positions `destination`; the others keep their order.
void movedim(Ctx& c) {
  const Val x = c.tensor("self");
  const int rank = c.rank(x);
  if (rank == 0) return c.yield(x);
  const Ints source = c.integers("source"), destination = c.integers("destination");
  c.expect(source.size() == destination.size(), "source and destination must have the same length");
  Ints order(rank, -1);
  std::vector<bool> moved(rank, false);
  for (std::size_t i = 0; i < source.size(); ++i) {
    const std::int64_t axis = c.axis(source[i], rank);
    std::int64_t& place = order[c.axis(destination[i], rank)];
    c.expect(!moved[axis] && place < 0, "source and destination must name each axis once");
    place = axis;
    moved[axis] = true;
  }
  std::int64_t next = 0;
  for (std::int64_t& axis : order) {
    if (axis >= 0) continue;
    while (moved[next]) ++next;
    axis = next++;
  }
  c.yield(c.transpose(x, order));
}

// Cuts off the rows or columns that the offset skips, then takes the main diagonal of the matrices [*, rows, columns]:
// every (columns + 1)-th element, as many as the smaller of rows and columns.
Val dynamic_diagonal(Ctx& c, Val x, std::int64_t offset) {
  const DType dtype = c.dtype(x);
  const std::int64_t axis = c.rank(x) - 2;
  std::vector<Size> flat;
  for (std::int64_t front = 0; front < axis; ++front) flat.emplace_back(c.dim_of(x, front));
  if (offset != 0) {
    x = c.typed(c.emit("Slice", {x, c.constant_ints({std::abs(offset)}), c.constant_ints({INT64_MAX}),
                                 c.constant_ints({offset > 0 ? -1 : -2})}),
                dtype);
  }
  const Val sizes = c.emit("Shape", {x});
  const auto size = [&](std::int64_t axis) { return c.emit("Gather", {sizes, c.constant_int(axis)}); };
  const Val rows = size(-2), columns = size(-1);
  const Val step = c.emit("Add", {columns, c.constant_int(1)});
  const Val indices = c.emit("Range", {c.constant_int(0), c.emit("Mul", {c.emit("Min", {rows, columns}), step}), step});
  // Reshape cannot infer a size next to one that is 0.
  const bool infers =
      std::ranges::all_of(flat, [&](const Size& front) { return c.static_size(front).value_or(0) > 0; });
  flat.push_back(infers ? Size{-1} : Size{c.emit("Mul", {rows, columns})});
  return c.emit("Gather", {c.reshape(x, flat), indices}, {{"axis", axis}});
}

// The elements x[i, i + offset] of the matrices along dim1 and dim2, as a new last axis.
void diagonal(Ctx& c) {
  const Val x = c.tensor("self");
  const int rank = c.rank(x);
  const std::int64_t row = c.axis(c.integer("dim1"), rank), column = c.axis(c.integer("dim2"), rank);
  const auto rows = c.static_dim(x, row), columns = c.static_dim(x, column);
  Ints order, flat;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    if (axis != row && axis != column) order.push_back(axis), flat.push_back(0);
  }
  order.insert(order.end(), {row, column});
  const std::int64_t offset = c.integer("offset");
  c.expect(std::max(offset, -max_count) == offset && offset <= max_count, "offset must fit into 32 bits");
  if (!rows || !columns) return c.yield(dynamic_diagonal(c, c.transpose(x, order), offset));
  flat.push_back(whence::element_count(Ints{*rows, *columns}));
  c.expect(row != column, "dim1 and dim2 must differ");
  Ints indices;
  const std::int64_t first = offset < 0 ? -offset : 0, last = std::min(*rows, *columns - offset);
  if (first < last) indices.reserve(c.table_size({last - first}));
  for (std::int64_t i = first; i < last; ++i) {
    indices.push_back(i * *columns + i + offset);
  }
  const Val matrices = c.emit("Reshape", {c.transpose(x, order), c.constant_ints(flat)});
  c.yield(c.emit("Gather", {matrices, c.constant_ints(indices)}, {{"axis", rank - 2}}));
}

// ---- broadcasting and tiling ------------------------------------------------------------------------------------

// Returns true if broadcasting to `sizes` leaves the value unchanged in every run.
bool has_output_shape(Ctx& c, Val x, const std::vector<Size>& sizes) {
  const auto target = c.output_dims();
  const Dims dims = c.dims(x);
  if (!target || target->size() != dims.size() || sizes.size() != dims.size()) return false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != Size{-1} && !same_length(dims[i], (*target)[i])) return false;
    if (program::may_widen(c.session().program(), c.dims(x)[i], c.static_size(sizes[i]))) return false;
  }
  return true;
}

// Only axes of size 1 grow. For every other axis Expand gets a 1, which keeps its size without computing it.
void expand(Ctx& c) {
  const Val x = c.tensor("self");
  std::vector<Size> sizes = c.sizes("size");
  if (has_output_shape(c, x, sizes)) return c.yield(x);
  const auto rank = static_cast<std::size_t>(c.rank(x));
  c.expect(sizes.size() >= rank, "size must have an entry for each axis");
  const std::size_t added = sizes.size() - rank;
  const auto result = c.output_dims();
  for (std::size_t i = added; i < sizes.size(); ++i) {
    const Dim& dim = c.dims(x)[i - added];
    // An axis of size 1 that grows has another symbol in the result, or none.
    const bool stays = dim.symbol != none_id && result && (*result)[i].symbol == dim.symbol;
    const bool may_be_one = dim.is_static() ? dim.size == 1 : !stays;
    if (!may_be_one || sizes[i] == Size{-1}) sizes[i] = 1;
    // -1 keeps the axis, also if it is computed: Expand does not accept -1, but a 1 keeps the axis.
    const auto* computed = std::get_if<Val>(&sizes[i]);
    if (computed != nullptr && !never_negative(c, *computed)) sizes[i] = c.emit("Abs", {*computed});
  }
  c.yield(c.emit("Expand", {x, c.to_vector(sizes)}));
}

void expand_as(Ctx& c) { c.yield(broadcast(c, c.tensor("self"), {c.tensor("other")})); }

// Tile, after prepending axes of size 1 to match the number of repeats (or repeats of 1 to match the rank).
void tile(Ctx& c, Val x, std::vector<Size> repeats) {
  const int missing = static_cast<int>(repeats.size()) - c.rank(x);
  if (missing > 0) x = c.unsqueeze(x, axis_order(missing));
  if (missing < 0) repeats.insert(repeats.begin(), static_cast<std::size_t>(-missing), Size{1});
  // PyTorch treats a negative number of repeats as 0.
  for (Size& size : repeats) {
    const auto* computed = std::get_if<Val>(&size);
    if (computed != nullptr && !never_negative(c, *computed)) size = c.emit("Max", {*computed, c.constant_int(0)});
  }
  const bool once = std::all_of(repeats.begin(), repeats.end(), [](const Size& size) { return size == Size{1}; });
  c.yield(once ? x : c.emit("Tile", {x, c.to_vector(repeats)}));
}
void repeat(Ctx& c) { tile(c, c.tensor("self"), c.sizes("repeats")); }
void tile(Ctx& c) { tile(c, c.tensor("self"), c.sizes("dims")); }

// Expands every tensor to the shape that all of them broadcast to.
void broadcast_tensors(Ctx& c) {
  const std::vector<Val> tensors = c.tensors("tensors");
  std::vector<Val> results;
  for (const Val x : tensors) results.push_back(broadcast(c, x, tensors));
  c.yield(results);
}

// Vector i along axis i ("ij") of a grid that spans all vectors; "xy" exchanges the first two axes.
void meshgrid(Ctx& c) {
  const std::vector<Val> vectors = c.tensors("tensors");
  const int rank = static_cast<int>(vectors.size());
  const bool xy = c.schema().find("indexing") && c.one_of("indexing", {"ij", "xy"}) == "xy";
  const Ints axis_of = xy && rank > 1 ? exchanged_axes(rank, 0, 1) : axis_order(rank);
  std::vector<Size> shape(rank);
  for (int i = 0; i < rank; ++i) {
    shape[axis_of[i]] = c.rank(vectors[i]) == 0 ? Size{1} : size_of_axis(c, vectors[i], 0);
  }
  std::vector<Val> results;
  for (int i = 0; i < rank; ++i) {
    Ints along(rank, 1);
    along[axis_of[i]] = -1;
    const Val line = c.emit("Reshape", {vectors[i], c.constant_ints(along)});
    results.push_back(c.emit("Expand", {line, c.to_vector(shape)}));
  }
  c.yield(results);
}

const OpEntry kShape[] = {
    {"aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)", view},
    {"aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor", view},
    {"aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
     as_strided},
    {"aten::atleast_1d(Tensor self) -> Tensor", at_least<1>},
    {"aten::atleast_1d.Sequence(Tensor[] tensors) -> Tensor[]", each_at_least<1>},
    {"aten::atleast_2d(Tensor self) -> Tensor", at_least<2>},
    {"aten::atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]", each_at_least<2>},
    {"aten::atleast_3d(Tensor self) -> Tensor", at_least<3>},
    {"aten::atleast_3d.Sequence(Tensor[] tensors) -> Tensor[]", each_at_least<3>},
    {"aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]", broadcast_tensors},
    {"aten::broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)", expand},
    {"aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)", diagonal},
    {"aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)", expand},
    {"aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", expand_as},
    {"aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", flatten},
    {"aten::mT(Tensor(a) self) -> Tensor(a)", matrix_transpose},
    {"aten::meshgrid(Tensor[] tensors) -> Tensor[]", meshgrid},
    {"aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]", meshgrid},
    {"aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)", movedim},
    {"aten::movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)", movedim},
    {"aten::numpy_T(Tensor(a) self) -> Tensor(a)", reverse_axes},
    {"aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)", permute},
    {"aten::ravel(Tensor(a) self) -> Tensor(a)", ravel},
    {"aten::repeat(Tensor self, SymInt[] repeats) -> Tensor", repeat},
    {"aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)", reshape},
    {"aten::_reshape_from_tensor(Tensor self, Tensor shape) -> Tensor", reshape_from_tensor},
    {"aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)", reshape_as},
    {"aten::squeeze(Tensor(a) self) -> Tensor(a)", squeeze},
    {"aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", squeeze_dims},
    {"aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", squeeze_dims},
    {"aten::t(Tensor(a) self) -> Tensor(a)", t},
    {"aten::tile(Tensor self, SymInt[] dims) -> Tensor", tile},
    {"aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", transpose},
    {"aten::unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)", unflatten},
    {"aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", unsqueeze},
    {"aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)", view},
    {"aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)", reshape_as},
};

}  // namespace

OpFamily shape_ops() { return kShape; }

}  // namespace whence::convert
