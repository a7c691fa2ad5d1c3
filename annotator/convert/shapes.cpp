// Ctx's operations on shapes: dims, reshaping, transposing, sizes at run time.
//
// A size that the graph computes costs nodes, so each operation first tries to avoid it: a static size is a constant,
// an axis that a Reshape leaves in place is a 0, and a size that follows from the others is a -1.
#include <algorithm>
#include <utility>

#include "annotator/convert/axes.h"
#include "annotator/convert/convert.h"
#include "annotator/convert/ctx.h"
#include "annotator/program/tensor_values.h"

namespace whence::convert {

using graph::no_value;

// One axis of the target shape of a Reshape.
struct Ctx::ReshapeTarget {
  enum class Kind { literal, copied, inferred, computed } kind = Kind::literal;
  std::int64_t literal = 0;
  Val computed;
  std::optional<Dim> dim = std::nullopt;  // the result's size, if it is known
};

// ---- facts about values -----------------------------------------------------------------------------------------

Dims Ctx::dims(Val value) const {
  const auto& dims = session_.graph().values[value.id].dims;
  if (!dims) refuse("the rank of one of its tensors is not known", "pass example inputs with --input or --inputs");
  return Dims(*dims);
}

int Ctx::rank(Val value) const { return static_cast<int>(dims(value).size()); }

std::optional<std::int64_t> Ctx::static_dim(Val value, std::int64_t axis) const {
  const Dims all = dims(value);
  const Dim& dim = all[this->axis(axis, static_cast<int>(all.size()))];
  return dim.is_static() ? std::optional<std::int64_t>(dim.size) : std::nullopt;
}

bool Ctx::all_static(Val value) const {
  const auto& dims = session_.graph().values[value.id].dims;
  return dims && std::all_of(dims->begin(), dims->end(), [](const Dim& dim) { return dim.is_static(); });
}

std::int64_t Ctx::axis(std::int64_t axis, int rank) const {
  const std::int64_t wrapped = axis < 0 ? axis + rank : axis;
  if (rank == 0 && (axis == 0 || axis == -1)) {  // PyTorch accepts these for a scalar, which has no axis
    refuse("a scalar has no axis " + std::to_string(axis), "pass x.unsqueeze(0)");
  }
  if (wrapped < 0 || wrapped >= rank) {
    refuse("axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank),
           "check the model; PyTorch refuses this too");
  }
  return wrapped;
}

// ---- sizes ------------------------------------------------------------------------------------------------------

std::optional<std::int64_t> Ctx::static_size(const Size& size) const {
  if (const auto* known = std::get_if<std::int64_t>(&size)) return *known;
  const TensorData* data = constant(std::get<Val>(size));
  return data == nullptr ? std::nullopt : single_integer(*data);
}

Val Ctx::dim_of(Val value, std::int64_t axis) {
  const auto& dims = session_.graph().values[value.id].dims;
  if (dims) {
    if (const auto size = static_dim(value, axis)) return constant_int(*size);
    axis = this->axis(axis, static_cast<int>(dims->size()));
  } else if (axis < 0) {
    refuse("the rank of one of its tensors is not known", "pass example inputs with --input or --inputs");
  }
  return Val{session_.dim_of(value.id, static_cast<int>(axis))};
}

Val Ctx::to_scalar_value(const Size& size) {
  if (const auto known = static_size(size)) return constant_int(*known);
  const Val value = std::get<Val>(size);
  const auto& dims = session_.graph().values[value.id].dims;
  return dims && dims->size() == 1 ? squeeze(value, {0}) : value;
}

// [2, n, m, 3] -> Concat([2], Shape(x)[0:2], [3]) if n and m are adjacent axes of x.
Val Ctx::to_vector(const std::vector<Size>& sizes) {
  std::vector<Val> parts;
  Ints literals;
  const auto flush = [&] {
    if (!literals.empty()) parts.push_back(constant_ints(literals));
    literals.clear();
  };
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (const auto known = static_size(sizes[i])) {
      literals.push_back(*known);
      continue;
    }
    flush();
    const Val value = std::get<Val>(sizes[i]);
    const SizeSource* source = session_.size_source(value.id);
    if (source == nullptr) {
      const auto& dims = session_.graph().values[value.id].dims;
      parts.push_back(dims && dims->size() == 1 ? value : unsqueeze(value, {0}));
      continue;
    }
    const graph::GraphValueId of = source->value;
    const int start = source->axis;
    int end = start + 1;
    for (; i + 1 < sizes.size() && !static_size(sizes[i + 1]); ++i, ++end) {
      const SizeSource* next = session_.size_source(std::get<Val>(sizes[i + 1]).id);
      if (next == nullptr || next->value != of || next->axis != end) break;
    }
    parts.push_back(Val{session_.shape_slice(of, start, end)});
  }
  flush();
  if (parts.empty()) return constant_ints({});
  return parts.size() == 1 ? parts.front() : emit("Concat", parts, {{"axis", std::int64_t{0}}});
}

// ---- reshaping --------------------------------------------------------------------------------------------------

// Returns true if `size` certainly equals the size of that axis at run time.
bool Ctx::same_size(const Size& size, Val value, std::int64_t axis) const {
  const auto& dims = session_.graph().values[value.id].dims;
  if (!dims || axis >= static_cast<std::int64_t>(dims->size())) return false;
  const Dim& dim = (*dims)[axis];
  if (const auto known = static_size(size)) return dim.is_static() && dim.size == *known;
  const SizeSource* source = session_.size_source(std::get<Val>(size).id);
  if (source == nullptr) return false;
  return (source->value == value.id && source->axis == axis) ||
         (source->symbol != none_id && source->symbol == dim.symbol);
}

Val Ctx::reshape(Val value, const std::vector<Size>& shape) {
  std::vector<ReshapeTarget> target;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (const auto known = static_size(shape[i])) {
      const bool open = *known == -1;
      target.push_back({open ? ReshapeTarget::Kind::inferred : ReshapeTarget::Kind::literal, *known, absent});
    } else if (same_size(shape[i], value, static_cast<std::int64_t>(i))) {
      target.push_back({ReshapeTarget::Kind::copied, 0, absent});
    } else {
      target.push_back({ReshapeTarget::Kind::computed, 0, std::get<Val>(shape[i])});
    }
  }
  return emit_reshape(value, std::move(target));
}

Val Ctx::reshape_to_output(Val value, int index) {
  const auto recorded = output_dims(index);
  if (!recorded) refuse("the shape of its result is not known", "pass example inputs with --input or --inputs");
  using Kind = ReshapeTarget::Kind;
  const auto before = session_.graph().values[value.id].dims;
  std::vector<ReshapeTarget> target;
  bool open = false;
  for (std::size_t i = 0; i < recorded->size(); ++i) {
    const Dim& dim = (*recorded)[i];
    Kind kind = Kind::literal;
    if (!dim.is_static()) {
      const bool named = dim.symbol != none_id;
      if (named && before && i < before->size() && (*before)[i].symbol == dim.symbol) {
        kind = Kind::copied;
      } else if (named && session_.input_axis(dim.symbol).first != no_value) {
        kind = Kind::computed;
      } else if (!std::exchange(open, true)) {
        kind = Kind::inferred;
      } else {
        refuse("more than one size of its result is neither fixed nor a named dynamic axis",
               "name the axes these sizes come from with --dynamic");
      }
    }
    target.push_back({kind, dim.size, absent, dim});
  }
  const auto computed = [](const ReshapeTarget& entry) { return entry.kind == Kind::computed; };
  // An empty tensor needs every size computed: none follows from the number of elements.
  const bool empty = std::ranges::any_of(*recorded, [](const Dim& dim) { return dim.is_static() && dim.size == 0; });
  if (!open && !empty && std::count_if(target.begin(), target.end(), computed) == 1) {
    std::find_if(target.begin(), target.end(), computed)->kind = Kind::inferred;
  }
  for (ReshapeTarget& entry : target) {
    if (!computed(entry)) continue;
    const auto [source, axis] = session_.input_axis(entry.dim->symbol);
    entry.computed = dim_of(Val{source}, axis);
  }
  return emit_reshape(value, std::move(target));
}

Val Ctx::emit_reshape(Val value, std::vector<ReshapeTarget> target) {
  using Kind = ReshapeTarget::Kind;
  const auto is = [](Kind kind) { return [kind](const ReshapeTarget& entry) { return entry.kind == kind; }; };
  const auto before = session_.graph().values[value.id].dims;
  const bool empty = std::any_of(target.begin(), target.end(),
                                 [](const ReshapeTarget& e) { return e.kind == Kind::literal && e.literal == 0; });
  // A literal 0 means an empty tensor and needs allowzero, which rules out 0 for "copy" and -1.
  if (empty && opset() < first_opset_with_allowzero)
    refuse("reshaping an empty tensor needs opset 14", "use --opset 14 or newer");

  // A single computed size can be inferred from the others if none of them can be 0.
  const bool open = std::any_of(target.begin(), target.end(), is(Kind::inferred));
  const bool may_follow = !open && !empty && std::none_of(target.begin(), target.end(), is(Kind::copied));
  if (may_follow && std::count_if(target.begin(), target.end(), is(Kind::computed)) == 1) {
    std::find_if(target.begin(), target.end(), is(Kind::computed))->kind = Kind::inferred;
  }
  // If several sizes are computed, one may be 0, which must not mean "copy".
  const bool may_be_zero =
      !open && opset() >= first_opset_with_allowzero && std::any_of(target.begin(), target.end(), is(Kind::computed));
  std::vector<Size> shape;
  std::vector<Dim> result;
  bool unchanged = before && before->size() == target.size();
  for (std::size_t i = 0; i < target.size(); ++i) {
    ReshapeTarget& entry = target[i];
    const bool copied = entry.kind == Kind::copied;
    if (copied && (empty || may_be_zero)) entry.computed = dim_of(value, static_cast<std::int64_t>(i));
    unchanged =
        unchanged &&
        (copied || (entry.kind == Kind::literal && (*before)[i].is_static() && (*before)[i].size == entry.literal));
    if (copied && !empty && !may_be_zero) {
      shape.emplace_back(std::int64_t{0});
    } else if (entry.kind == Kind::literal) {
      shape.emplace_back(entry.literal);
    } else if (entry.kind == Kind::inferred) {
      shape.emplace_back(std::int64_t{-1});
    } else {
      shape.emplace_back(entry.computed);
    }
    if (!entry.dim)
      entry.dim = entry.kind == Kind::literal ? Dim{entry.literal, false, none_id} : copied ? (*before)[i] : Dim{};
    result.push_back(*entry.dim);
  }
  if (unchanged) return value;
  Attributes attributes;
  if (empty || may_be_zero) attributes.push_back({"allowzero", std::int64_t{1}});
  const Val reshaped = emit("Reshape", {value, to_vector(shape)}, std::move(attributes));
  graph::GraphValue& held = session_.graph().values[reshaped.id];
  // infer_types() may have inferred a size that the recorded program lacks.
  const auto inferred = std::exchange(held.dims, std::move(result));
  for (std::size_t i = 0; inferred && i < held.dims->size() && i < inferred->size(); ++i) {
    if ((*held.dims)[i] == Dim{}) (*held.dims)[i] = (*inferred)[i];
  }
  return reshaped;
}

// ---- axes -------------------------------------------------------------------------------------------------------

Val Ctx::transpose(Val value, const Ints& permutation) {
  Ints sorted = permutation;
  std::ranges::sort(sorted);
  expect(sorted == axis_order(static_cast<int>(permutation.size())), "the permutation must contain each axis once");
  const auto& dims = session_.graph().values[value.id].dims;
  if (dims && dims->size() != permutation.size()) throw MissingAxis(dims->size());
  return permutation == axis_order(static_cast<int>(permutation.size()))
             ? value
             : emit("Transpose", {value}, {{"perm", permutation}});
}

Val Ctx::unsqueeze(Val value, const Ints& axes) {
  if (axes.empty()) return value;
  if (const SizeSource* source = session_.size_source(value.id); source != nullptr && axes == Ints{0}) {
    return Val{session_.shape_slice(source->value, source->axis, source->axis + 1)};
  }
  return emit("Unsqueeze", {value, constant_ints(axes)});
}

Val Ctx::squeeze(Val value, const Ints& axes) {
  return axes.empty() ? value : emit("Squeeze", {value, constant_ints(axes)});
}

}  // namespace whence::convert
