// Joins and splits tensors: cat and stack, split, chunk and unbind.
#include <algorithm>
#include <numeric>

#include "annotator/convert/ops/families.h"

namespace whence::convert {
namespace {

// ---- joining ----------------------------------------------------------------------------------------------------

// Concatenates the parts along `axis`. Their dtypes are promoted.
void concatenate(Ctx& c, std::vector<Val> parts, std::int64_t axis) {
  for (Val& part : parts) part = c.cast(part, c.output_dtype());
  c.yield(parts.size() == 1 ? parts[0] : c.emit("Concat", parts, {{"axis", axis}}));
}

// An empty vector can be joined with tensors of any rank.
bool is_empty_vector(Ctx& c, Val x) { return c.rank(x) == 1 && c.static_dim(x, 0) == 0; }

// Joins a list whose length depends on data without taking it apart; its elements have the same dtype.
bool join_sequence(Ctx& c, bool new_axis) {
  const Val list = c.sequence("tensors");
  if (!list) return false;
  c.yield(c.emit("ConcatFromSequence", {list},
                 {{"axis", c.integer("dim")}, {"new_axis", static_cast<std::int64_t>(new_axis)}}));
  return true;
}

void cat(Ctx& c) {
  if (join_sequence(c, false)) return;
  std::vector<Val> parts = c.tensors("tensors");
  c.expect(!parts.empty(), "the list of tensors must not be empty");
  const std::vector<Val> all = parts;
  std::erase_if(parts, [&c](Val part) { return is_empty_vector(c, part); });
  if (parts.empty()) return c.yield(all.front());
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(parts[0]));
  concatenate(c, std::move(parts), axis);
}

// Joins the parts along a new axis.
void stack(Ctx& c) {
  if (join_sequence(c, true)) return;
  std::vector<Val> parts = c.tensors("tensors");
  c.expect(!parts.empty(), "the list of tensors must not be empty");
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(parts[0]) + 1);
  for (Val& part : parts) part = c.unsqueeze(c.cast(part, c.output_dtype()), {axis});
  concatenate(c, std::move(parts), axis);
}

// Joins along axis 1; vectors and scalars along axis 0.
void hstack(Ctx& c) {
  std::vector<Val> parts = c.tensors("tensors");
  const int rank = c.rank(parts[0]);
  for (Val& part : parts) part = rank == 0 ? c.unsqueeze(part, {0}) : part;
  concatenate(c, std::move(parts), rank < 2 ? 0 : 1);
}

// Joins along axis 0; vectors and scalars become rows.
void vstack(Ctx& c) {
  std::vector<Val> parts = c.tensors("tensors");
  for (Val& part : parts) {
    const int rank = c.rank(part);
    if (rank < 2) part = c.unsqueeze(part, rank == 0 ? Ints{0, 1} : Ints{0});
  }
  concatenate(c, std::move(parts), 0);
}

// ---- splitting --------------------------------------------------------------------------------------------------

// Yields one equal piece for each of the operator's results; the last may be smaller.
void split_evenly(Ctx& c, Val x, std::int64_t axis) {
  const int pieces = c.output_count();
  if (pieces == 1) return c.yield(std::vector{x});
  Attributes attributes{{"axis", axis}};
  if (c.opset() >= 18) attributes.push_back({"num_outputs", pieces});
  c.yield(c.emit_many("Split", {x}, attributes, pieces));
}

void split_into(Ctx& c, Val x, std::int64_t axis, const std::vector<Size>& sizes) {
  if (sizes.size() == 1) return c.yield(std::vector{x});
  const bool equal = std::all_of(sizes.begin(), sizes.end(), [&](const Size& size) { return size == sizes[0]; });
  if (equal) return split_evenly(c, x, axis);
  c.yield(c.emit_many("Split", {x, c.to_vector(sizes)}, {{"axis", axis}}, static_cast<int>(sizes.size())));
}

// A sequence of pieces of `size` along axis. For an empty axis PyTorch makes `of_none` empty pieces and ONNX makes
// none; so if the axis may be empty, the lengths of all pieces are computed.
void split_to_sequence(Ctx& c, Val x, std::int64_t axis, const Size& size, const Size& of_none) {
  const Val piece = c.to_scalar_value(size);
  if (c.static_dim(x, axis).value_or(0) > 0) return c.yield(c.emit("SplitToSequence", {x, piece}, {{"axis", axis}}));
  const Val zero = c.constant_int(0), one = c.constant_int(1), elements = c.dim_of(x, axis);
  const Val divisor = c.static_size(size).value_or(0) > 0 ? piece : c.emit("Max", {piece, one});
  const Val rounded_up = c.emit("Div", {c.emit("Add", {elements, c.emit("Sub", {divisor, one})}), divisor});
  const Val pieces = c.emit("Where", {c.emit("Greater", {elements, zero}), rounded_up, c.to_scalar_value(of_none)});
  const Val begins = c.emit("Mul", {c.emit("Range", {zero, pieces, one}), piece});
  const Val lengths = c.emit("Min", {c.emit("Sub", {elements, begins}), piece});
  c.yield(c.emit("SplitToSequence", {x, lengths}, {{"axis", axis}}));
}

// Pieces of `size` along axis; the last takes the remainder. `of_none`: how many pieces PyTorch makes of an empty axis.
void split_by_size(Ctx& c, Val x, std::int64_t axis, const Size& size, const Size& of_none) {
  if (c.yields_sequence()) return split_to_sequence(c, x, axis, size, of_none);
  const int pieces = c.output_count();
  c.expect(pieces > 0, "it must yield at least one piece");
  std::vector<Size> sizes(pieces, size);
  const auto axis_size = c.static_dim(x, axis), piece = c.static_size(size);
  if (axis_size && piece) {
    std::int64_t before = 0;  // elements before the last piece
    c.expect(*piece >= 0 && !__builtin_mul_overflow(*piece, pieces - 1, &before) && before <= *axis_size,
             "the pieces must fit into the axis");
    std::fill(sizes.begin(), sizes.end(), *piece);
    sizes.back() = *axis_size - before;
  } else if (pieces > 1) {
    const Val used = c.emit("Mul", {c.to_scalar_value(size), c.constant_int(pieces - 1)});
    sizes.back() = c.emit("Sub", {c.dim_of(x, axis), used});
  }
  split_into(c, x, axis, sizes);
}

void split(Ctx& c) {
  const Val x = c.tensor("self");
  split_by_size(c, x, c.axis(c.integer("dim"), c.rank(x)), c.size("split_size"), 1);
}

template <const char* argument>
void split_sizes(Ctx& c) {
  const Val x = c.tensor("self");
  split_into(c, x, c.axis(c.integer("dim"), c.rank(x)), c.sizes(argument));
}
constexpr char kSplitSize[] = "split_size", kSplitSizes[] = "split_sizes";

// Pieces of ceil(n / chunks) elements; there may be fewer than `chunks`.
void chunk(Ctx& c) {
  const Val x = c.tensor("self");
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x));
  const Size chunks = c.size("chunks");
  const auto axis_size = c.static_dim(x, axis), count = c.static_size(chunks);
  c.expect(!count || *count >= 1, "chunks must be at least 1");
  if (axis_size && count)
    return split_by_size(c, x, axis, *axis_size / *count + (*axis_size % *count > 0 ? 1 : 0), chunks);
  if (count && !c.yields_sequence() && c.output_count() < *count) {
    c.refuse("the axis is dynamic, and the example is cut into fewer pieces than " + std::to_string(*count),
             "pass an example that is long enough, or keep that axis fixed");
  }
  // Split rounds up, like chunk.
  if (count && c.opset() >= 18 && !c.yields_sequence()) return split_evenly(c, x, axis);
  const Val number = c.to_scalar_value(chunks);
  const Val rounded = c.emit("Add", {c.dim_of(x, axis), c.emit("Sub", {number, c.constant_int(1)})});
  split_by_size(c, x, axis, c.emit("Div", {rounded, number}), chunks);
}

// Computes the sizes of tensor_split: n / sections, plus one for the first n % sections pieces.
void split_dynamic_axis(Ctx& c, Val x, std::int64_t axis, std::int64_t sections) {
  if (sections == 1) return c.yield(std::vector{x});
  Ints numbers(sections);
  std::iota(numbers.begin(), numbers.end(), 0);
  const Val axis_size = c.dim_of(x, axis), pieces = c.constant_int(sections);
  const Val longer = c.emit("Less", {c.constant_ints(numbers), c.emit("Mod", {axis_size, pieces})});
  const Val sizes =
      c.emit("Add", {c.emit("Div", {axis_size, pieces}), c.cast(c.typed(longer, DType::boolean), DType::int64)});
  c.yield(c.emit_many("Split", {x, sizes}, {{"axis", axis}}, static_cast<int>(sections)));
}

// hsplit, vsplit and dsplit name their axis only in the operator's name.
std::int64_t split_axis(Ctx& c, Val x) {
  const int rank = c.rank(x);
  if (c.schema().find("dim")) return c.axis(c.integer("dim"), rank);
  const std::string_view name = c.node().target;
  return c.axis(name == "aten::vsplit" ? 0 : name == "aten::dsplit" ? 2 : rank == 1 ? 0 : 1, rank);
}

// `sections` pieces, the first n % sections of them one longer than the others.
void tensor_split_sections(Ctx& c) {
  const Val x = c.tensor("self");
  const std::int64_t axis = split_axis(c, x), sections = c.count("sections");
  c.expect(c.yields_sequence() || sections == c.output_count(), "it must yield one piece for each section");
  c.table_size({sections});
  const auto axis_size = c.static_dim(x, axis);
  if (!axis_size) return split_dynamic_axis(c, x, axis, sections);
  std::vector<Size> sizes;
  for (std::int64_t i = 0; i < sections; ++i)
    sizes.push_back(*axis_size / sections + (i < *axis_size % sections ? 1 : 0));
  split_into(c, x, axis, sizes);
}

// Splits by slices, which clamp like PyTorch, if a cut or the size that it counts from is known only at run time.
void slice_between(Ctx& c, Val x, std::int64_t axis, std::vector<Size> cuts) {
  cuts.insert(cuts.begin(), Size{0});
  cuts.push_back(Size{INT64_MAX});
  std::vector<Val> pieces;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    pieces.push_back(c.emit("Slice", {x, c.to_vector({cuts[i]}), c.to_vector({cuts[i + 1]}), c.constant_ints({axis})}));
  }
  c.yield(pieces);
}

// Splits before each of `indices`.
void tensor_split_indices(Ctx& c) {
  const Val x = c.tensor("self");
  const std::int64_t axis = split_axis(c, x);
  const auto axis_size = c.static_dim(x, axis);
  std::vector<Size> requested_cuts = c.sizes("indices");
  if (!axis_size ||
      std::any_of(requested_cuts.begin(), requested_cuts.end(), [&](const Size& cut) { return !c.static_size(cut); })) {
    return slice_between(c, x, axis, std::move(requested_cuts));
  }
  std::vector<Size> sizes;
  std::int64_t from = 0;
  Ints cuts = c.integers("indices");
  cuts.push_back(*axis_size);
  for (std::int64_t cut : cuts) {
    cut = std::clamp(cut < 0 ? cut + *axis_size : cut, from, *axis_size);
    sizes.push_back(cut - from);
    from = cut;
  }
  split_into(c, x, axis, sizes);
}

// Takes the indices, or the number of sections, from a tensor. The number of pieces was fixed when the program was
// recorded.
void tensor_split_tensor(Ctx& c) {
  const Val x = c.tensor("self"), indices_or_sections = c.tensor("tensor_indices_or_sections");
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x));
  if (c.rank(indices_or_sections) == 0) {
    if (!c.static_size(Size{indices_or_sections}))
      c.refuse("the number of pieces is known only at run time", "pass it as a number");
    return split_dynamic_axis(c, x, axis, c.output_count());
  }
  std::vector<Size> cuts;
  for (int i = 0; i + 1 < c.output_count(); ++i) {
    cuts.emplace_back(c.typed(c.emit("Gather", {c.cast(indices_or_sections, DType::int64), c.constant_int(i)}),
                              DType::int64, std::vector<Dim>()));
  }
  slice_between(c, x, axis, std::move(cuts));
}

// The slices along dim without that axis, one Gather each.
void unbind(Ctx& c) {
  const Val x = c.tensor("self");
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x));
  if (c.yields_sequence()) {
    return c.yield(c.emit("SplitToSequence", {x}, {{"axis", axis}, {"keepdims", std::int64_t{0}}}));
  }
  std::vector<Val> slices;
  for (int i = 0; i < c.output_count(); ++i)
    slices.push_back(c.emit("Gather", {x, c.constant_int(i)}, {{"axis", axis}}));
  c.yield(slices);
}

const OpEntry kJoining[] = {
    {"aten::cat(Tensor[] tensors, int dim=0) -> Tensor", cat},
    {"aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]", chunk},
    {"aten::hstack(Tensor[] tensors) -> Tensor", hstack},
    {"aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]", split},
    {"aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]", split_sizes<kSplitSize>},
    {"aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
     split_sizes<kSplitSizes>},
    {"aten::stack(Tensor[] tensors, int dim=0) -> Tensor", stack},
    {"aten::hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", tensor_split_sections},
    {"aten::hsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", tensor_split_indices},
    {"aten::vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", tensor_split_sections},
    {"aten::vsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", tensor_split_indices},
    {"aten::dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", tensor_split_sections},
    {"aten::dsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", tensor_split_indices},
    {"aten::tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]",
     tensor_split_indices},
    {"aten::tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]",
     tensor_split_sections},
    {"aten::tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor tensor_indices_or_sections, int dim=0) "
     "-> Tensor(a)[]",
     tensor_split_tensor},
    {"aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]", unbind},
    {"aten::unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]", chunk},
    {"aten::unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]", split},
    {"aten::unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
     split_sizes<kSplitSizes>},
    {"aten::vstack(Tensor[] tensors) -> Tensor", vstack},
};

}  // namespace

OpFamily joining_ops() { return kJoining; }

}  // namespace whence::convert
