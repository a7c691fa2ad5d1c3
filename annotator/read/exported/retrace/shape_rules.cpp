// Reshapes, views, casts and copies.
#include <numeric>

#include "annotator/read/exported/retrace/rule_helpers.h"

namespace whence {
namespace {

using Arguments = Retrace::Arguments;
using Keywords = Retrace::Keywords;

bool copy(Retrace& t, const FxCall& c) { return t.yield(t.emit("aten.clone.default", {first(c)})), true; }

// ---- shapes -------------------------------------------------------------------------------------------------------

// at::native::reshape: a view where the tensor lies so that it can be one, or a copy of it. Where it lies in row-major
// order the shape is passed on as it is, else what it leaves open is worked out first.
bool in_shape(Retrace& t, const FxCall& c, std::vector<TracedSize> shape) {
  const std::string_view result = c.results.front();
  const auto open = std::ranges::find_if(shape, [](const TracedSize& size) { return size.is(-1); });
  const auto axis = static_cast<std::size_t>(open - shape.begin());
  if (t.contiguous(self(c))) {
    if (open != shape.end()) t.name_new_size(result, axis, self(c));
    return t.yield_view(self(c), "aten.view.default", {text_of(shape)}), true;
  }
  t.sizes().infer(shape, t.element_count(self(c)));
  if (axis < shape.size()) t.name_size(result, axis, shape[axis]);
  if (t.sizes().viewable(t.layout(self(c)), shape)) {
    return t.yield_view(self(c), "aten.view.default", {text_of(shape)}), true;
  }
  return t.yield(t.emit_unsafe_view(self(c), shape)), true;
}

bool as_result(Retrace& t, const FxCall& c) { return in_shape(t, c, t.layout(c.results.front()).sizes); }

// The sizes are those of the result, as the model said them.
bool reshape(Retrace& t, const FxCall& c) {
  std::vector<TracedSize> shape = t.layout(c.results.front()).sizes;
  const std::string stated = c.text("shape");
  std::size_t begin = 1;
  for (TracedSize& size : shape) {
    if (begin >= stated.size()) return as_result(t, c);
    const std::size_t end = std::min(stated.find(", ", begin), stated.size() - 1);
    const std::string piece = stated.substr(begin, end - begin);
    size.text = piece;
    if (piece == "-1") size = number(-1);
    begin = end + 2;
  }
  return in_shape(t, c, std::move(shape));
}

bool flatten(Retrace& t, const FxCall& c) {
  const Layout whole = t.layout(self(c));
  const auto rank = static_cast<std::int64_t>(whole.sizes.size());
  const std::int64_t start = axis_of(c, "start_dim", rank), end = axis_of(c, "end_dim", rank, -1);
  if (rank > 0 && start == end) return alias(t, c);
  if (rank == 0 || start < 0 || start > end || end >= rank) return as_result(t, c);
  const auto first = whole.sizes.begin() + start, last = whole.sizes.begin() + end + 1;
  std::vector<TracedSize> shape(whole.sizes.begin(), first);
  shape.push_back(t.sizes().element_count({first, last}));
  t.name_size(c.results.front(), static_cast<std::size_t>(start), shape.back());
  shape.insert(shape.end(), last, whole.sizes.end());
  return in_shape(t, c, std::move(shape));
}

bool view_of_result_size(Retrace& t, const FxCall& c) {
  return t.yield_view(self(c), "aten.view.default", {t.sizes_text(c.results.front())}), true;
}

bool expand_as(Retrace& t, const FxCall& c) {
  return t.yield_view(self(c), "aten.expand.default", {t.sizes_text(c.results.front())}), true;
}

bool contiguous(Retrace& t, const FxCall& c) {
  const std::string format = c.text("memory_format", "torch.contiguous_format");
  if (format == "torch.contiguous_format" && t.contiguous(self(c))) return alias(t, c);
  return t.yield(t.emit("aten.clone.default", {first(c)}, {{"memory_format", format}})), true;
}

bool movedim(Retrace& t, const FxCall& c) {
  const std::int64_t rank = t.facts(self(c)).rank();
  const auto axes = [&](std::string_view name) {
    auto given = c.integers(name);
    for (std::int64_t& axis : given) axis += axis < 0 ? rank : 0;
    return given;
  };
  const std::vector<std::int64_t> from = axes("source"), to = axes("destination");
  if (from.size() != to.size()) return false;
  std::vector<std::int64_t> order(static_cast<std::size_t>(rank), -1), rest;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (to[i] < 0 || to[i] >= rank) return false;
    order[static_cast<std::size_t>(to[i])] = from[i];
  }
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    if (std::ranges::find(from, axis) == from.end()) rest.push_back(axis);
  }
  auto next = rest.begin();
  for (std::int64_t& axis : order) {
    if (axis < 0 && next != rest.end()) axis = *next++;
  }
  return t.yield_view(self(c), "aten.permute.default", {list_text(order)}), true;
}

bool reversed_axes(Retrace& t, const FxCall& c) {
  const std::int64_t rank = t.facts(self(c)).rank();
  std::vector<std::int64_t> order(static_cast<std::size_t>(rank));
  std::iota(order.rbegin(), order.rend(), 0);
  return t.yield_view(self(c), "aten.permute.default", {list_text(order)}), true;
}

bool last_two_exchanged(Retrace& t, const FxCall& c) {
  return t.yield_view(self(c), "aten.transpose.int", {"-2", "-1"}), true;
}

bool last_two_exchanged_of_real(Retrace& t, const FxCall& c) {
  return !is_complex(t.facts(self(c)).dtype) && last_two_exchanged(t, c);
}

bool two_exchanged(Retrace& t, const FxCall& c) {
  if (c.given.size() != 3) return false;
  return t.yield_view(self(c), "aten.transpose.int", {c.given[1].text, c.given[2].text}), true;
}

// Axes that are 1 long, counted from the front, one after the other from the last.
bool squeeze(Retrace& t, const FxCall& c) {
  if (c.overload != "dims") return false;
  const TensorFacts whole = t.facts(self(c));
  std::vector<std::int64_t> axes = c.integers("dim");
  for (std::int64_t& axis : axes) axis += axis < 0 ? whole.rank() : 0;
  std::erase_if(axes, [&](auto axis) { return axis < 0 || axis >= whole.rank() || whole.sizes[axis] != 1; });
  if (axes.size() < 2) return t.yield_view(self(c), "prims.squeeze.default", {list_text(axes)}), true;
  std::ranges::sort(axes, std::greater<>());
  std::string node = first(c);
  for (const std::int64_t axis : axes) node = t.emit("prims.squeeze.default", {node, list_text({axis})});
  return t.yield(node), true;
}

bool chunk(Retrace& t, const FxCall& c) {
  const TensorFacts whole = t.facts(self(c));
  const std::int64_t axis = axis_of(c, "dim", whole.rank()), chunks = c.integer("chunks", 1);
  if (axis < 0 || axis >= whole.rank() || whole.sizes[axis] < 0 || chunks < 1) return false;
  Arguments arguments = {first(c), std::to_string((whole.sizes[axis] + chunks - 1) / chunks)};
  if (c.find("dim") != nullptr) arguments.push_back(c.text("dim"));
  return t.yield(t.items(t.emit("aten.split.Tensor", arguments), c.results.size())), true;
}

// A vector along an axis of its own, of as many as there are vectors.
std::string along_axis(Retrace& t, const std::string& vector, const Layout& grid, std::size_t axis) {
  const std::size_t rank = grid.sizes.size();
  std::vector<std::int64_t> shape(rank, 1);
  shape[axis] = -1;
  const TracedSize &length = grid.sizes[axis], &stride = grid.strides[axis];
  Layout seen = {std::vector<TracedSize>(rank, number(1)), std::vector<TracedSize>(rank, stride)};
  seen.sizes[axis] = length;
  for (std::size_t i = 0; i < axis; ++i) seen.strides[i] = product(stride, length);
  t.name_open_size(length);
  return t.emit_of(seen, "aten.view.default", {vector, list_text(shape)});
}

// A grid of each vector along an axis of its own; "xy" exchanges the first two.
bool meshgrid(Retrace& t, const FxCall& c) {
  std::vector<std::string> vectors;
  each_reference(first(c), [&](FxId node) { vectors.push_back(reference_to(node)); });
  const bool exchanged = c.text("indexing", "ij") == "xy" && vectors.size() > 1;
  if (vectors.size() != c.results.size()) return false;
  std::vector<std::string> grids(vectors.size());
  std::vector<std::size_t> order(vectors.size());
  std::iota(order.begin(), order.end(), 0);
  if (exchanged) std::swap(order[0], order[1]);
  for (std::size_t axis = 0; axis < order.size(); ++axis) {
    const Layout grid = t.layout(c.results[order[axis]]);
    if (!grid.known() || grid.sizes.size() != order.size()) return false;
    const std::string along = along_axis(t, vectors[order[axis]], grid, axis);
    grids[order[axis]] = t.emit_of(grid, "aten.expand.default", {along, text_of(grid.sizes)});
  }
  return t.yield(grids), true;
}

bool narrow(Retrace& t, const FxCall& c) {
  const std::int64_t start = c.integer("start", -1), length = c.integer("length", -1);
  if (c.overload != "default" || start < 0 || length < 0) return false;
  return t.yield_view(self(c), "aten.slice.Tensor", {c.text("dim"), c.text("start"), std::to_string(start + length)}),
         true;
}

bool ravel(Retrace& t, const FxCall& c) {
  if (t.contiguous(self(c))) return in_shape(t, c, {number(-1)});
  return t.yield(t.emit("aten.view.default", {t.emit_contiguous(self(c)), "[-1]"})), true;
}

bool rot90(Retrace& t, const FxCall& c) {
  const std::vector<std::int64_t> given = c.integers("dims");
  const std::int64_t rank = t.facts(self(c)).rank(), turns = ((c.integer("k", 1) % 4) + 4) % 4;
  if (given.size() != 2 && c.find("dims") != nullptr) return false;
  std::vector<std::int64_t> dims = given.empty() ? std::vector<std::int64_t>{0, 1} : given;
  if (turns == 0) return copy(t, c);
  for (std::int64_t& dim : dims) dim += dim < 0 ? rank : 0;
  const std::vector<std::int64_t> flipped = turns == 2 ? dims : std::vector{turns == 1 ? dims[1] : dims[0]};
  const std::string turned = t.emit("aten.flip.default", {first(c), list_text(flipped)});
  if (turns == 2) return t.yield(turned), true;
  return t.yield(t.emit("aten.transpose.int", {turned, std::to_string(dims[0]), std::to_string(dims[1])})), true;
}

// Axes of one before and behind those that there are.
bool at_least(Retrace& t, const FxCall& c) {
  const std::int64_t rank = t.facts(self(c)).rank(), wanted = c.op[sizeof("aten.atleast_") - 1] - '0';
  if (c.overload != "default") return false;
  if (rank >= wanted) return alias(t, c);
  if (rank == 0) {
    return t.yield_view(self(c), "aten.view.default", {list_text(std::vector<std::int64_t>(wanted, 1))}), true;
  }
  if (wanted == 2) return t.yield_view(self(c), "aten.unsqueeze.default", {"0"}), true;
  if (rank == 2) return t.yield_view(self(c), "aten.unsqueeze.default", {"-1"}), true;
  return recipe<"unsqueeze $self 0; unsqueeze %1 -1">(t, c);
}

bool take(Retrace& t, const FxCall& c) { return recipe<"view $self [-1]; index.Tensor %1 [$index]">(t, c); }

bool diagonal(Retrace& t, const FxCall& c) {
  return t.yield_view(self(c), "aten.diagonal.default",
                      {c.text("offset", "0"), c.text("dim1", "-2"), c.text("dim2", "-1")}),
         true;
}

// A copy of a node's result in row-major order, in another shape.
std::string copied_in_shape(Retrace& t, const std::string& of, const std::string& shape) {
  const std::string copy = t.emit("aten.clone.default", {of}, {{"memory_format", "torch.contiguous_format"}});
  return t.emit("aten._unsafe_view.default", {copy, shape});
}

// The axes in that order, and what they become of the shape.
std::string as_matrix(Retrace& t, const FxCall::Given& given, const std::vector<std::int64_t>& order,
                      const std::vector<std::int64_t>& shape) {
  const Layout whole = t.layout(given.value);
  Layout turned = whole;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t axis = order[i] < 0 ? order[i] + order.size() : static_cast<std::size_t>(order[i]);
    turned.sizes[i] = whole.sizes[axis];
    turned.strides[i] = whole.strides[axis];
  }
  std::vector<TracedSize> seen;
  for (const std::int64_t size : shape) seen.push_back(number(size));
  const std::string permuted = t.emit("aten.permute.default", {given.text, list_text(order)});
  if (t.sizes().viewable(turned, seen)) return t.emit("aten.view.default", {permuted, list_text(shape)});
  return copied_in_shape(t, permuted, list_text(shape));
}

// A product of matrices: of the axes that stay by those that are summed over.
bool contract(Retrace& t, const FxCall& c, const std::vector<std::int64_t>& of_a, std::vector<std::int64_t> of_b) {
  const FxCall::Given* other = c.find("other");
  if (other == nullptr || !t.layout(self(c)).known() || !t.layout(other->value).known()) return false;
  const TensorFacts a = t.facts(self(c)), b = t.facts(other->value);
  std::vector<std::int64_t> free_a, free_b;
  const auto split = [](const TensorFacts& x, const std::vector<std::int64_t>& summed,
                        std::vector<std::int64_t>& free) {
    std::vector<std::int64_t> from_front = summed;
    for (std::int64_t& axis : from_front) axis += axis < 0 ? x.rank() : 0;
    for (std::int64_t axis = 0; axis < x.rank(); ++axis) {
      if (std::ranges::find(from_front, axis) == from_front.end()) free.push_back(axis);
    }
    const bool known = std::ranges::all_of(x.sizes, [](auto size) { return size >= 0; });
    return known && free.size() + summed.size() == x.sizes.size() &&
           std::ranges::all_of(from_front, [&](auto axis) { return axis >= 0 && axis < x.rank(); });
  };
  if (!split(a, of_a, free_a) || !split(b, of_b, free_b) || of_a.size() != of_b.size()) return false;
  if (free_a.empty() && free_b.empty()) return false;  // becomes aten.dot
  const auto count = [](const TensorFacts& x, const std::vector<std::int64_t>& axes) {
    std::int64_t product = 1;
    for (const std::int64_t axis : axes)
      product *= x.sizes[static_cast<std::size_t>(axis < 0 ? axis + x.rank() : axis)];
    return product;
  };
  const std::int64_t rows = count(a, free_a), inner = count(a, of_a), columns = count(b, free_b);
  free_a.insert(free_a.end(), of_a.begin(), of_a.end());
  of_b.insert(of_b.end(), free_b.begin(), free_b.end());
  const std::string left = as_matrix(t, c.given.front(), free_a, {rows, inner});
  const std::string right = as_matrix(t, *other, of_b, {inner, columns});
  const std::string product = t.emit("aten.mm.default", {left, right});
  return t.yield(t.emit("aten.view.default", {product, t.sizes_text(c.results.front())})), true;
}

bool tensordot(Retrace& t, const FxCall& c) {
  return contract(t, c, c.integers("dims_self"), c.integers("dims_other"));
}

bool inner(Retrace& t, const FxCall& c) {
  const FxCall::Given* other = c.find("other");
  const std::int64_t a = t.facts(self(c)).rank(), b = t.facts(other == nullptr ? "" : other->value).rank();
  if (a == 0 || b == 0) return false;
  if (a > 1 || b > 1) return contract(t, c, {-1}, {-1});
  return recipe<"permute $self [-1]; permute $other [-1]; dot %1 %2; view %3 []">(t, c);
}

// Groups of channels, mixed.
bool channel_shuffle(Retrace& t, const FxCall& c) {
  std::vector<std::int64_t> sizes = t.facts(self(c)).sizes;
  const std::int64_t groups = c.integer("groups", 1);
  if (sizes.size() < 3 || groups < 2 || sizes[1] < groups || !t.contiguous(self(c))) return false;
  const std::string whole = t.sizes_text(self(c));
  sizes.insert(sizes.begin() + 1, groups);
  sizes[2] /= groups;
  if (std::ranges::any_of(sizes, [](auto size) { return size < 0; })) return false;
  const std::string grouped = t.emit("aten.view.default", {first(c), list_text(sizes)});
  const std::string mixed = t.emit("aten.transpose.int", {grouped, "1", "2"});
  return t.yield(copied_in_shape(t, mixed, whole)), true;
}

// ---- dtypes and copies --------------------------------------------------------------------------------------------

// `to` in its forms: the tensor itself, or a copy.
bool to(Retrace& t, const FxCall& c) {
  const bool same = t.facts(self(c)).dtype == t.facts(c.results.front()).dtype;
  if (same && c.text("copy", "False") == "False" && c.find("memory_format") == nullptr) return alias(t, c);
  Keywords keywords;
  for (const char* name : {"dtype", "layout", "device", "pin_memory", "memory_format"}) {
    const std::string given = c.text(name);
    if (given != "None") keywords.emplace_back(name, given);
  }
  return t.yield(t.emit("aten._to_copy.default", {first(c)}, keywords)), true;
}

bool detach(Retrace& t, const FxCall& c) { return c.in_place && alias(t, c); }

// A copy, as its decomposition says; written in place, nothing.
bool dropout(Retrace& t, const FxCall& c) {
  return c.text("train") == "False" && (c.in_place ? alias(t, c) : copy(t, c));
}

bool noise_in_training(Retrace& t, const FxCall& c) { return c.text("train") == "False" && alias(t, c); }

constexpr auto table = std::to_array<RuleRow>({
    {"aten.adjoint", last_two_exchanged_of_real},
    {"aten.alpha_dropout", noise_in_training},
    {"aten.atleast_1d", at_least},
    {"aten.atleast_2d", at_least},
    {"aten.atleast_3d", at_least},
    {"aten.channel_shuffle", channel_shuffle},
    {"aten.chunk", chunk},
    {"aten.contiguous", contiguous},
    {"aten.detach", detach},
    {"aten.dropout", dropout},
    {"aten.expand_as", expand_as},
    {"aten.feature_alpha_dropout", noise_in_training},
    {"aten.feature_dropout", noise_in_training},
    {"aten.flatten", flatten},
    {"aten.fliplr", recipe<"flip $self [1]">},
    {"aten.flipud", recipe<"flip $self [0]">},
    {"aten.inner", inner},
    {"aten.lift_fresh", copy},
    {"aten.lift_fresh_copy", copy},
    {"aten.linalg_diagonal", diagonal},
    {"aten.mH", last_two_exchanged_of_real},
    {"aten.mT", last_two_exchanged},
    {"aten.moveaxis", movedim},
    {"aten.meshgrid", meshgrid},
    {"aten.movedim", movedim},
    {"aten.narrow", narrow},
    {"aten.numpy_T", reversed_axes},
    {"aten.ravel", ravel},
    {"aten.reshape", reshape},
    {"aten.reshape_as", as_result},
    {"aten.rot90", rot90},
    {"aten.squeeze", squeeze},
    {"aten.swapaxes", two_exchanged},
    {"aten.swapdims", two_exchanged},
    {"aten.take", take},
    {"aten.tensordot", tensordot},
    {"aten.to", to},
    {"aten.unflatten", view_of_result_size},
    {"aten.unsafe_chunk", chunk},
    {"aten.view_as", view_of_result_size},
});

}  // namespace

std::span<const RuleRow> shape_rules() { return table; }

}  // namespace whence
