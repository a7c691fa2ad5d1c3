// Layouts of views: a rule for each form computes sizes, offset and strides. Shape functions use the rules for the
// sizes of most views.
#include <algorithm>
#include <limits>
#include <utility>

#include "schema/place.h"
#include "schema/shapes/shape_call.h"

namespace whence {

namespace {

using Sizes = std::vector<Size>;
using Found = std::optional<MemoryPlace>;
using shapes::NoShape;

// Computes the layout of one result. Throws NoShape if a number of the call is missing.
struct View {
  const shapes::ShapeCall& call;
  const Program* program;  // null if only the sizes of the results are computed
  std::size_t output;
  MemoryPlace place;  // initially the argument's layout

  std::size_t rank() const { return place.sizes.size(); }
  Found take_place() { return std::move(place); }
  std::size_t axis(std::string_view name, std::optional<std::int64_t> otherwise = std::nullopt) const {
    return call.axis(name, rank(), otherwise);
  }

  // Returns the sizes of a result as stored in the program.
  Sizes result_sizes(std::size_t result) const {
    const auto sizes = program == nullptr ? std::nullopt : sizes_of(*program, call.node().outputs[result]);
    if (!sizes) throw NoShape();
    return *sizes;
  }
  Sizes result_sizes() const { return result_sizes(output); }
  // Returns the stored size of an axis, or `derived` if the axis has only a local symbol.
  Size result_size(std::size_t axis, const Size& derived) const {
    if (program == nullptr) return derived;
    const Size stated = result_sizes().at(axis);
    const auto symbol = stated.single_symbol();
    return symbol && local_size(*symbol) && derived.is_known() ? derived : stated;
  }
  // Converts an index of PyTorch, which counts from the end if negative.
  static Size counted(const Size& index, const Size& length) {
    if (!index.is_known()) return index;
    if (!index.is_integer()) return Size::call("counted", {index, length});
    return index.number() < 0 ? index + length : index;
  }

  Found without(std::size_t axis, const Size& index) {
    place.offset = place.offset + counted(index, place.sizes[axis]) * place.strides[axis];
    place.sizes.erase(place.sizes.begin() + static_cast<std::ptrdiff_t>(axis));
    place.strides.erase(place.strides.begin() + static_cast<std::ptrdiff_t>(axis));
    return take_place();
  }
  // Slices an axis. `length`: its new length, derived from the call.
  Found cut(std::size_t axis, const Size& start, const Size& step, const Size& length) {
    place.offset = place.offset + start * place.strides[axis];
    place.strides[axis] = place.strides[axis] * step;
    place.sizes[axis] = result_size(axis, length);
    return take_place();
  }
  Found in_order(const std::vector<std::size_t>& order) {
    if (order.size() != rank()) throw NoShape();
    MemoryPlace moved{place.memory, place.offset, {}, {}};
    for (const std::size_t from : order) {
      moved.sizes.push_back(place.sizes[from]);
      moved.strides.push_back(place.strides[from]);
    }
    return moved;
  }
  Found exchanged(std::size_t a, std::size_t b) {
    std::vector<std::size_t> order = axes_in_order(rank());
    std::swap(order[a], order[b]);
    return in_order(order);
  }
};

Found slice(View& view) {
  const std::size_t axis = view.axis("dim", 0);
  const Size start = view.call.integer("start", Size(0)), step = view.call.integer("step", Size(1));
  const Size to_end = std::numeric_limits<std::int64_t>::max(), end = view.call.integer("end", to_end);
  const Size length = view.place.sizes[axis];
  const auto clamped = [&](const Size& index) {
    const Size least = view.call.at_least_0(View::counted(index, length));
    return view.call.not_negative(length - least) ? least : minimum({least, length});
  };
  const Size first = clamped(start), last = end == to_end ? length : clamped(end);
  return view.cut(axis, first, step, view.call.at_least_0(floor_div(last - first + step - 1, step)));
}

// A part of a split or chunk starts at the end of the previous parts.
Found part(View& view, std::size_t axis) {
  if (axis >= view.rank()) return std::nullopt;
  Size start = 0;
  for (std::size_t i = 0; i < view.output; ++i) start = start + view.result_sizes(i).at(axis);
  return view.cut(axis, start, 1, view.result_sizes().at(axis));
}

// Moves the axes `source` to the positions `destination`. The other axes keep their order.
Found moved(View& view) {
  const auto source = view.call.axes("source", view.rank()), destination = view.call.axes("destination", view.rank());
  if (source.empty() || source.size() != destination.size()) return std::nullopt;
  std::vector<std::size_t> rest = axes_in_order(view.rank()), order;
  std::erase_if(rest, [&](std::size_t axis) { return std::ranges::find(source, axis) != source.end(); });
  auto next = rest.begin();
  for (std::size_t at = 0; at < view.rank(); ++at) {
    const auto named = std::ranges::find(destination, at);
    if (named == destination.end() && next == rest.end()) return std::nullopt;
    order.push_back(named != destination.end() ? source[named - destination.begin()] : *next++);
  }
  return view.in_order(order);
}

Found unsqueezed(View& view) {
  const std::size_t axis = view.call.axis("dim", view.rank() + 1);
  MemoryPlace& place = view.place;
  const Size stride = axis < view.rank() ? place.sizes[axis] * place.strides[axis] : Size(1);
  place.sizes.insert(place.sizes.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  place.strides.insert(place.strides.begin() + static_cast<std::ptrdiff_t>(axis), stride);
  return view.take_place();
}

Found expanded(View& view) {
  const Sizes sizes = view.result_sizes();
  MemoryPlace& place = view.place;
  if (sizes.size() < view.rank()) return std::nullopt;
  const std::size_t new_axes = sizes.size() - view.rank();
  place.sizes.insert(place.sizes.begin(), new_axes, 1);
  place.strides.insert(place.strides.begin(), new_axes, 0);
  const Sizes requested_sizes = view.call.has("size") ? view.call.integers("size") : Sizes();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const bool kept = i < requested_sizes.size() && requested_sizes[i] == Size(-1);
    if (kept || certainly_equal(place.sizes[i], sizes[i])) continue;
    if (place.sizes[i] != Size(1)) return std::nullopt;
    place.sizes[i] = sizes[i];
    place.strides[i] = 0;
  }
  return view.take_place();
}

Found diagonal(View& view) {
  const std::size_t first = view.axis("dim1", 0), second = view.axis("dim2", 1);
  const std::int64_t offset = view.call.literal("offset", 0);
  if (first == second) return std::nullopt;
  MemoryPlace& place = view.place;
  const Size rows = place.sizes[first] + std::min<std::int64_t>(offset, 0),
             columns = place.sizes[second] - std::max<std::int64_t>(offset, 0);
  const Size stride = place.strides[first] + place.strides[second];
  place.offset = place.offset + Size(std::abs(offset)) * place.strides[offset >= 0 ? second : first];
  for (const std::size_t axis : {std::max(first, second), std::min(first, second)}) place = *view.without(axis, 0);
  place.sizes.push_back(view.result_size(place.sizes.size(), view.call.at_least_0(minimum({rows, columns}))));
  place.strides.push_back(stride);
  return view.take_place();
}

// Adds an axis for the elements of overlapping windows.
Found unfolded(View& view) {
  const std::size_t axis = view.axis("dimension");
  const Size size = view.call.integer("size"), step = view.call.integer("step");
  const Size count = floor_div(view.place.sizes[axis] - size, step) + 1;
  view.place.strides.push_back(view.place.strides[axis]);
  view.place.sizes.push_back(size);
  return view.cut(axis, 0, step, count);
}

Found strided(View& view) {
  MemoryPlace place{view.place.memory, view.call.integer("storage_offset", view.place.offset),
                    view.call.integers("size"), view.call.integers("stride")};
  return place.sizes.size() == place.strides.size() ? Found(std::move(place)) : std::nullopt;
}

// Reshapes without moving elements. Merges axes that are adjacent in memory, and divides the merged axes into the new
// sizes. nullopt if it is not certain which new sizes divide which axis.
Found reshaped(View& view) {
  const Sizes sizes = view.result_sizes();
  const MemoryPlace& from = view.place;
  Sizes lengths, strides;
  for (std::size_t i = 0; i < from.sizes.size(); ++i) {
    if (from.sizes[i] == Size(1)) continue;
    if (!lengths.empty() && certainly_equal(strides.back(), from.sizes[i] * from.strides[i])) {
      lengths.back() = lengths.back() * from.sizes[i];
      strides.back() = from.strides[i];
    } else {
      lengths.push_back(from.sizes[i]);
      strides.push_back(from.strides[i]);
    }
  }
  MemoryPlace shaped{from.memory, from.offset, sizes, Sizes(sizes.size(), 1)};
  Size done = 1;  // elements of the last merged axis that the new axes cover so far
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (lengths.size() > 1 && certainly_equal(done, lengths.back())) {
      lengths.pop_back(), strides.pop_back();
      done = 1;
    }
    shaped.strides[i] = strides.empty() ? done : done * strides.back();
    done = done * sizes[i];
  }
  return lengths.size() > 1 && !certainly_equal(done, lengths.back()) ? std::nullopt : Found(std::move(shaped));
}

Found by_rule(View view, ViewForm form) {
  const std::size_t rank = view.rank();
  switch (form) {
    case ViewForm::select:
      return view.without(view.axis("dim"), view.call.integer("index"));
    case ViewForm::unbind:
      return view.without(view.axis("dim", 0), static_cast<std::int64_t>(view.output));
    case ViewForm::slice:
      return slice(view);
    case ViewForm::narrow: {
      const std::size_t axis = view.axis("dim");
      const Size start = View::counted(view.call.integer("start"), view.place.sizes[axis]);
      return view.cut(axis, start, 1, view.call.integer("length"));
    }
    case ViewForm::part:
      return part(view, view.axis("dim", 0));
    case ViewForm::part_of_rows:
      return part(view, 0);
    case ViewForm::part_of_columns:
      return part(view, rank == 1 ? 0 : 1);
    case ViewForm::part_of_depth:
      return part(view, 2);
    case ViewForm::transpose: {
      const bool named = view.call.has("axis0");
      if (rank == 0) return view.take_place();
      return view.exchanged(view.axis(named ? "axis0" : "dim0"), view.axis(named ? "axis1" : "dim1"));
    }
    case ViewForm::transpose_last:
      return rank < 2 ? view.take_place() : view.exchanged(rank - 2, rank - 1);
    case ViewForm::reverse_axes: {
      std::vector<std::size_t> order = axes_in_order(rank);
      std::ranges::reverse(order);
      return view.in_order(order);
    }
    case ViewForm::move_axes:
      return moved(view);
    case ViewForm::permute:
      return view.in_order(view.call.axes("dims", rank));
    case ViewForm::unsqueeze:
      return unsqueezed(view);
    case ViewForm::expand:
      return expanded(view);
    case ViewForm::diagonal:
      return diagonal(view);
    case ViewForm::unfold:
      return unfolded(view);
    case ViewForm::as_strided:
      return strided(view);
    case ViewForm::reshape:
      return reshaped(view);
    case ViewForm::contiguous: {  // if it returns its argument
      Sizes sizes = view.result_sizes();
      Sizes strides = dense_strides(sizes, requested_order(view.call.node(), sizes.size()));
      return MemoryPlace{view.place.memory, view.place.offset, std::move(sizes), std::move(strides)};
    }
    case ViewForm::none:
    case ViewForm::as_real:
    case ViewForm::as_complex:
      return std::nullopt;
  }
  return std::nullopt;
}

Found place_by_form(const Program& program, const Node& view, std::size_t output, const MemoryPlace& base,
                    ViewForm form) {
  if (view.target == "aten::view" && view.overload == "dtype") return std::nullopt;  // changes the elements
  const bool is_list =
      output < view.outputs.size() && program.values[view.outputs[output]].type.kind == ValueKind::sequence;
  if (is_list) return std::nullopt;  // the value holds all parts
  const auto number_of = [&](ValueId id) {
    if (const auto known = known_integer(program, {ValueRef{id}})) return Size(*known);
    if (!is_scalar(program.values[id].type.kind)) throw NoShape();
    return local_symbol({id, -1});
  };
  const ShapeFacts facts{nullptr, number_of, nullptr, [&](SymbolId id) { return range_in(program, id); }};
  try {
    return by_rule({{view, facts}, &program, output, base}, form);
  } catch (const NoShape&) {
  } catch (const std::out_of_range&) {
  }
  return std::nullopt;
}

}  // namespace

std::optional<MemoryPlace> place_of_view(const Program& program, const Node& view, std::size_t output,
                                         const MemoryPlace& base) {
  return place_by_form(program, view, output, base, facts_of(view.target).view);
}

std::optional<MemoryPlace> arrangement_of_view(const Program& program, const Node& view, std::size_t output,
                                               const MemoryPlace& base) {
  const ViewForm form = facts_of(view.target).view;
  if (form == ViewForm::as_strided && !is_row_major(base)) return std::nullopt;
  return place_by_form(program, view, output, base, form == ViewForm::contiguous ? ViewForm::reshape : form);
}

shapes::Shapes shapes::shapes_of_view(const ShapeCall& call, ViewForm form) {
  const Shape& sizes = call.first();
  const auto place = by_rule({call, nullptr, 0, {none_id, 0, sizes, Sizes(sizes.size(), 1)}}, form);
  if (!place) throw NoShape();
  return Shapes(std::max<std::size_t>(call.results(), 1), place->sizes);
}

}  // namespace whence
