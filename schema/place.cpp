#include "schema/place.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace whence {

namespace {

using Sizes = std::vector<Size>;

constexpr SymbolId first_local = 1 << 30;
constexpr int local_axes = 16;  // a number in the last place
constexpr ValueId most_values = (std::numeric_limits<SymbolId>::max() - first_local) / local_axes;
constexpr ValueId unit = most_values - 1;  // no value: the unit in which an axis alone counts

bool is_one(const Size& size) { return size == Size(1); }

Size product(auto from, auto to) {
  Size all = 1;
  for (; from != to; ++from) all = all * *from;
  return all;
}

std::vector<std::size_t> axes(std::size_t rank) {
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// The order of axes that memory_format asks for: channels_last, or ChannelsLast as TorchScript has it.
enum class Format : std::uint8_t { rows, channels_last, preserve };
Format memory_format(const Node& node) {
  const Argument* argument = node.find("memory_format");
  const auto* format = argument == nullptr ? nullptr : argument->as<Keyword>();
  if (format == nullptr || format->name.empty()) return Format::rows;
  return format->name[0] == 'c' || format->name[0] == 'C'
             ? (format->name[1] == 'h' ? Format::channels_last : Format::rows)
             : Format::preserve;
}

// The order of axes that contiguous() is asked for.
std::vector<std::size_t> asked_order(const Node& node, std::size_t rank) {
  std::vector<std::size_t> order = axes(rank);
  if (memory_format(node) == Format::channels_last && rank > 2) {
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  }
  return order;
}

bool at_least(const Program& program, const Size& size, std::int64_t least) {
  return size.is_known() && range_of(size, [&](SymbolId id) { return range_in(program, id); }).min >= least;
}

// ---- rules ------------------------------------------------------------------------------------------------------

using Found = std::optional<MemoryPlace>;

// A view whose result's place is asked for; `place` is its argument's at first.
struct View {
  const Program& program;
  const Node& node;
  std::size_t output;
  MemoryPlace place;

  std::size_t rank() const { return place.sizes.size(); }
  Found as_it_is() { return std::move(place); }

  // A number of the call: known, or one that the program computes. `otherwise` stands for one that is not given.
  std::optional<Size> number(std::string_view name, std::optional<Size> otherwise = std::nullopt) const {
    const Argument* argument = node.find(name);
    if (argument == nullptr || argument->is_none()) return otherwise;
    return number(*argument);
  }
  std::optional<Size> number(const Argument& argument) const {
    if (const auto known = known_integer(program, argument)) return Size(*known);
    const auto* value = argument.as<ValueRef>();
    if (value == nullptr || !is_scalar(program.values[value->id].type.kind)) return std::nullopt;
    return local_symbol({value->id, -1});
  }
  // An axis that is given by number; `extra`: axes that the result has more.
  std::optional<std::size_t> axis(const Argument* argument, std::optional<std::int64_t> otherwise = std::nullopt,
                                  std::int64_t extra = 0) const {
    const auto given = argument == nullptr ? otherwise : known_integer(program, *argument);
    const std::int64_t count = static_cast<std::int64_t>(rank()) + extra;
    if (!given || *given < -count || *given >= count) return std::nullopt;
    return static_cast<std::size_t>(*given < 0 ? *given + count : *given);
  }
  std::optional<std::size_t> axis(std::string_view name, std::optional<std::int64_t> otherwise = std::nullopt,
                                  std::int64_t extra = 0) const {
    return axis(node.find(name), otherwise, extra);
  }
  std::optional<std::vector<std::size_t>> axes(std::string_view name) const {
    const Argument* given = node.find(name);
    const auto* list = given == nullptr ? nullptr : given->as<ArgumentList>();
    std::vector<std::size_t> found;
    for (std::size_t i = 0; given != nullptr && i < (list == nullptr ? 1 : list->size()); ++i) {
      const auto each = axis(list == nullptr ? given : &(*list)[i]);
      if (!each) return std::nullopt;
      found.push_back(*each);
    }
    return found;
  }
  std::optional<Sizes> result_sizes() const { return sizes_of(program, node.outputs[output]); }
  // An index as PyTorch counts it: from the back where it is negative.
  static Size counted(const Size& index, const Size& length) {
    if (!index.is_integer()) return Size::call("counted", {index, length});
    return index.number() < 0 ? index + length : index;
  }

  Found without(std::size_t axis, const Size& index) {
    place.offset = place.offset + counted(index, place.sizes[axis]) * place.strides[axis];
    place.sizes.erase(place.sizes.begin() + static_cast<std::ptrdiff_t>(axis));
    place.strides.erase(place.strides.begin() + static_cast<std::ptrdiff_t>(axis));
    return as_it_is();
  }
  // `length`: of the axis, as it follows from the call, for where no symbol stands for it.
  Found cut(std::size_t axis, const Size& start, const Size& step, const Size& length = Size::unknown()) {
    auto sizes = result_sizes();
    if (!sizes || sizes->size() != rank()) return std::nullopt;
    const auto symbol = (*sizes)[axis].single_symbol();
    if (symbol && local_size(*symbol) && length.is_known()) (*sizes)[axis] = length;
    place.offset = place.offset + start * place.strides[axis];
    place.strides[axis] = place.strides[axis] * step;
    place.sizes[axis] = (*sizes)[axis];
    return as_it_is();
  }
  Found in_order(const std::vector<std::size_t>& order) {
    MemoryPlace moved{place.memory, place.offset, {}, {}};
    for (const std::size_t from : order) {
      moved.sizes.push_back(place.sizes[from]);
      moved.strides.push_back(place.strides[from]);
    }
    return moved;
  }
  Found exchanged(std::size_t a, std::size_t b) {
    std::vector<std::size_t> order = whence::axes(rank());
    std::swap(order[a], order[b]);
    return in_order(order);
  }
};

Found slice(View& view) {
  const auto axis = view.axis("dim", 0);
  const auto start = view.number("start", 0), step = view.number("step", 1);
  const auto end = view.number("end", std::numeric_limits<std::int64_t>::max());
  if (!axis || !start || !step) return std::nullopt;
  const Size length = view.place.sizes[*axis];
  const auto clamped = [&](const Size& index) {
    const Size from_front = View::counted(index, length),
               least = at_least(view.program, from_front, 0) ? from_front : maximum({from_front, 0});
    return at_least(view.program, length - least, 0) ? least : minimum({least, length});
  };
  const bool to_end = end && end->is_integer() && end->number() == std::numeric_limits<std::int64_t>::max();
  const Size first = clamped(*start), last = to_end ? length : end ? clamped(*end) : Size::unknown();
  const Size taken = floor_div(last - first + *step - 1, *step);
  return view.cut(*axis, first, *step, at_least(view.program, taken, 0) ? taken : maximum({taken, 0}));
}

// One part of a split or chunk begins where those before it end.
Found part(View& view, std::optional<std::size_t> axis) {
  if (!axis || *axis >= view.rank()) return std::nullopt;
  Size start = 0;
  for (std::size_t i = 0; i < view.output; ++i) {
    const auto sizes = sizes_of(view.program, view.node.outputs[i]);
    if (!sizes || *axis >= sizes->size()) return std::nullopt;
    start = start + (*sizes)[*axis];
  }
  return view.cut(*axis, start, 1);
}

// The axes `source` come to stand at `destination`; the others fill the places that are left, in their order.
Found moved(View& view) {
  const auto source = view.axes("source"), destination = view.axes("destination");
  if (!source || !destination || source->empty() || source->size() != destination->size()) return std::nullopt;
  std::vector<std::size_t> rest = axes(view.rank()), order;
  std::erase_if(rest, [&](std::size_t axis) { return std::ranges::find(*source, axis) != source->end(); });
  auto next = rest.begin();
  for (std::size_t at = 0; at < view.rank(); ++at) {
    const auto named = std::ranges::find(*destination, at);
    if (named == destination->end() && next == rest.end()) return std::nullopt;
    order.push_back(named != destination->end() ? (*source)[named - destination->begin()] : *next++);
  }
  return view.in_order(order);
}

Found unsqueezed(View& view) {
  const auto axis = view.axis("dim", std::nullopt, 1);
  if (!axis) return std::nullopt;
  MemoryPlace& place = view.place;
  const Size stride = *axis < view.rank() ? place.sizes[*axis] * place.strides[*axis] : Size(1);
  place.sizes.insert(place.sizes.begin() + static_cast<std::ptrdiff_t>(*axis), 1);
  place.strides.insert(place.strides.begin() + static_cast<std::ptrdiff_t>(*axis), stride);
  return view.as_it_is();
}

// New axes stand in front; an axis of size 1 may become longer. Both repeat what there is.
Found expanded(View& view) {
  const auto sizes = view.result_sizes();
  MemoryPlace& place = view.place;
  if (!sizes || sizes->size() < view.rank()) return std::nullopt;
  const std::size_t more = sizes->size() - view.rank();
  place.sizes.insert(place.sizes.begin(), more, 1);
  place.strides.insert(place.strides.begin(), more, 0);
  const Argument* given = view.node.find("size");
  const auto* asked = given == nullptr ? nullptr : given->as<ArgumentList>();
  for (std::size_t i = 0; i < sizes->size(); ++i) {
    const bool kept = asked != nullptr && i < asked->size() && known_integer(view.program, (*asked)[i]) == -1;
    if (kept || certainly_equal(place.sizes[i], (*sizes)[i])) continue;
    if (!is_one(place.sizes[i])) return std::nullopt;
    place.sizes[i] = (*sizes)[i];
    place.strides[i] = 0;
  }
  return view.as_it_is();
}

Found diagonal(View& view) {
  const auto first = view.axis("dim1", 0), second = view.axis("dim2", 1);
  const auto sizes = view.result_sizes();
  const auto offset = view.number("offset", 0);
  if (!first || !second || *first == *second || !sizes || sizes->size() + 1 != view.rank()) return std::nullopt;
  if (!offset || !offset->is_integer()) return std::nullopt;
  MemoryPlace& place = view.place;
  const std::size_t along = offset->number() >= 0 ? *second : *first;
  const Size stride = place.strides[*first] + place.strides[*second];
  place.offset = place.offset + Size(std::abs(offset->number())) * place.strides[along];
  for (const std::size_t axis : {std::max(*first, *second), std::min(*first, *second)})
    view.place = *view.without(axis, 0);
  place.strides.push_back(stride);
  place.sizes.push_back(sizes->back());
  return view.as_it_is();
}

// Overlapping windows, as a further axis.
Found unfolded(View& view) {
  const auto axis = view.axis("dimension");
  const auto size = view.number("size"), step = view.number("step");
  if (!axis || !size || !step) return std::nullopt;
  view.place.strides.push_back(view.place.strides[*axis]);
  view.place.sizes.push_back(*size);
  return view.cut(*axis, 0, *step);
}

Found strided(View& view) {
  const auto numbers = [&](std::string_view name) {
    const Argument* given = view.node.find(name);
    const auto* list = given == nullptr ? nullptr : given->as<ArgumentList>();
    Sizes found;
    for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
      found.push_back(view.number((*list)[i]).value_or(Size::unknown()));
    }
    return found;
  };
  const auto offset = view.number("storage_offset", view.place.offset);
  MemoryPlace place{view.place.memory, offset.value_or(Size::unknown()), numbers("size"), numbers("stride")};
  return place.sizes.size() == place.strides.size() ? Found(std::move(place)) : std::nullopt;
}

// The same elements in the same order: axes that lie behind one another without a gap are one axis, which the new sizes
// divide. nullopt where it is not certain which of them divide which axis.
Found reshaped(View& view) {
  const auto sizes = view.result_sizes();
  if (!sizes) return std::nullopt;
  const MemoryPlace& from = view.place;
  Sizes lengths, strides;
  for (std::size_t i = 0; i < from.sizes.size(); ++i) {
    if (is_one(from.sizes[i])) continue;
    if (!lengths.empty() && certainly_equal(strides.back(), from.sizes[i] * from.strides[i])) {
      lengths.back() = lengths.back() * from.sizes[i];
      strides.back() = from.strides[i];
    } else {
      lengths.push_back(from.sizes[i]);
      strides.push_back(from.strides[i]);
    }
  }
  MemoryPlace shaped{from.memory, from.offset, *sizes, Sizes(sizes->size(), 1)};
  Size done = 1;  // elements of the last axis in memory that the new axes hold so far
  for (std::size_t i = sizes->size(); i-- > 0;) {
    if (lengths.size() > 1 && certainly_equal(done, lengths.back())) {
      lengths.pop_back(), strides.pop_back();
      done = 1;
    }
    shaped.strides[i] = strides.empty() ? done : done * strides.back();
    done = done * (*sizes)[i];
  }
  return lengths.size() > 1 && !certainly_equal(done, lengths.back()) ? std::nullopt : Found(std::move(shaped));
}

Found by_rule(View view) {
  const std::size_t rank = view.rank();
  switch (facts_of(view.node.target).view) {
    case ViewForm::select: {
      const auto axis = view.axis("dim");
      const auto index = view.number("index");
      return axis && index ? view.without(*axis, *index) : std::nullopt;
    }
    case ViewForm::unbind: {
      const auto axis = view.axis("dim", 0);
      return axis ? view.without(*axis, static_cast<std::int64_t>(view.output)) : std::nullopt;
    }
    case ViewForm::slice:
      return slice(view);
    case ViewForm::narrow: {
      const auto axis = view.axis("dim");
      const auto start = view.number("start");
      return axis && start ? view.cut(*axis, View::counted(*start, view.place.sizes[*axis]), 1) : std::nullopt;
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
      const bool named = view.node.find("axis0") != nullptr;
      const auto a = view.axis(named ? "axis0" : "dim0"), b = view.axis(named ? "axis1" : "dim1");
      return a && b ? view.exchanged(*a, *b) : std::nullopt;
    }
    case ViewForm::transpose_last:
      return rank < 2 ? view.as_it_is() : view.exchanged(rank - 2, rank - 1);
    case ViewForm::reverse_axes: {
      std::vector<std::size_t> order = axes(rank);
      std::ranges::reverse(order);
      return view.in_order(order);
    }
    case ViewForm::move_axes:
      return moved(view);
    case ViewForm::permute: {
      const auto order = view.axes("dims");
      return order && order->size() == rank ? view.in_order(*order) : std::nullopt;
    }
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
    case ViewForm::contiguous: {  // if it gives its argument back
      auto sizes = view.result_sizes();
      if (!sizes) return std::nullopt;
      Sizes strides = dense_strides(*sizes, asked_order(view.node, sizes->size()));
      return MemoryPlace{view.place.memory, view.place.offset, std::move(*sizes), std::move(strides)};
    }
    case ViewForm::none:
    case ViewForm::as_real:
    case ViewForm::as_complex:
      return std::nullopt;
  }
  return std::nullopt;
}

// ---- conditions -------------------------------------------------------------------------------------------------

// A constraint that grows: nothing is added to one that always holds, and nothing that never does.
class AnyOf {
 public:
  explicit AnyOf(const Program& program) : program_(program) {}

  void add(const Size& left, Relation relation, const Size& right) {
    const SymbolRanges ranges = [&](SymbolId id) { return range_in(program_, id); };
    if (!left.is_known() || !right.is_known()) {
      known_ = false;
      return;
    }
    const bool equal = certainly_equal(left, right), other = certainly_different(left, right, ranges);
    holds_ |= relation == Relation::equal ? equal : other;
    const Comparison comparison{left, relation, right};
    const bool never = relation == Relation::equal ? other : equal;
    if (!never && std::ranges::find(any_.any, comparison) == any_.any.end()) any_.any.push_back(comparison);
  }

  // Joins it to `sharing`, which holds where all do.
  void join(Sharing& sharing) const {
    if (holds_ || sharing.kind == Sharing::Kind::copy) return;
    if (!known_) {
      if (sharing.kind != Sharing::Kind::copy) sharing.kind = Sharing::Kind::unknown;
    } else if (any_.any.empty()) {
      sharing.kind = Sharing::Kind::copy;
    } else {
      if (sharing.kind == Sharing::Kind::view) sharing.kind = Sharing::Kind::depends;
      sharing.condition.push_back(any_);
    }
  }

 private:
  const Program& program_;
  Constraint any_;
  bool holds_ = false, known_ = true;
};

// A view where each axis has the stride of that order, or one element.
Sharing where_in_order(const Program& program, const MemoryPlace& base, const std::vector<std::size_t>& order) {
  const Sizes expected = dense_strides(base.sizes, order);
  Sharing sharing{Sharing::Kind::view, {}};
  for (const std::size_t axis : order) {
    AnyOf any(program);
    any.add(base.sizes[axis], Relation::equal, 1);
    any.add(base.strides[axis], Relation::equal, expected[axis]);
    any.join(sharing);
  }
  return sharing;
}

// A view where each two axes that follow one another in the old shape (between them only such of one element) lie in
// memory without a gap, or the new shape divides the elements between them, too.
Sharing where_divided(const Program& program, const MemoryPlace& base, const Sizes& sizes) {
  Sharing sharing{Sharing::Kind::view, {}};
  for (std::size_t outer = 0; outer < base.sizes.size(); ++outer) {
    for (std::size_t inner = outer + 1; inner < base.sizes.size(); ++inner) {
      AnyOf any(program);
      any.add(base.sizes[outer], Relation::equal, 1);
      any.add(base.sizes[inner], Relation::equal, 1);
      for (std::size_t between = outer + 1; between < inner; ++between) {
        any.add(base.sizes[between], Relation::different, 1);
      }
      // Those between count, being 1 long, so that what holds along each step holds along several.
      const auto after = [&](std::size_t axis) { return base.sizes.begin() + static_cast<std::ptrdiff_t>(axis); };
      any.add(base.strides[outer], Relation::equal, product(after(outer + 1), after(inner + 1)) * base.strides[inner]);
      const Size behind = product(after(outer + 1), base.sizes.end());
      for (std::size_t from = 0; from <= sizes.size(); ++from) {
        any.add(product(sizes.begin() + static_cast<std::ptrdiff_t>(from), sizes.end()), Relation::equal, behind);
      }
      any.join(sharing);
    }
  }
  return sharing;
}

}  // namespace

// ---- lengths ----------------------------------------------------------------------------------------------------

std::optional<LocalSize> local_size(SymbolId symbol) {
  if (symbol < first_local) return std::nullopt;
  const int axis = (symbol - first_local) % local_axes;
  return LocalSize{(symbol - first_local) / local_axes, axis == local_axes - 1 ? -1 : axis};
}

Size local_symbol(const LocalSize& local) {
  if (local.value >= most_values || local.axis >= local_axes - 1) return Size::unknown();
  return Size::symbol(first_local + local.value * local_axes + (local.axis < 0 ? local_axes - 1 : local.axis));
}

std::optional<Sizes> sizes_of(const Program& program, ValueId tensor) {
  const auto& dims = program.values[tensor].type.dims;
  if (!dims) return std::nullopt;
  Sizes sizes;
  for (const Dim& dim : *dims) {
    const Size length = length_of(program.symbols, dim);
    sizes.push_back(length.is_known() ? length : local_symbol({tensor, static_cast<int>(sizes.size())}));
  }
  return sizes;
}

SizeRange range_in(const Program& program, SymbolId symbol) {
  const auto local = local_size(symbol);
  if (local) return local->axis < 0 ? SizeRange() : SizeRange{.min = 0};
  return {0, range_of(program.symbols[static_cast<std::size_t>(symbol)]).max};
}

std::optional<std::int64_t> example_of(const Program& program, SymbolId symbol) {
  const auto local = local_size(symbol);
  if (!local) return program.symbols[static_cast<std::size_t>(symbol)].example;
  if (local->axis < 0) return std::nullopt;
  const std::int64_t size = (*program.values[local->value].type.dims)[static_cast<std::size_t>(local->axis)].size;
  return size < 0 ? std::nullopt : std::optional(size);
}

// ---- places -----------------------------------------------------------------------------------------------------

std::optional<MemoryPlace> rows_of(const Program& program, ValueId tensor) {
  auto sizes = sizes_of(program, tensor);
  if (!sizes) return std::nullopt;
  Sizes strides = dense_strides(*sizes, axes(sizes->size()));
  return MemoryPlace{tensor, 0, std::move(*sizes), std::move(strides)};
}

Sizes dense_strides(const Sizes& sizes, const std::vector<std::size_t>& order) {
  Sizes strides(sizes.size(), 1);
  Size dense = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    strides[*axis] = dense;
    dense = dense * sizes[*axis];
  }
  return strides;
}

const StatedPlace* stated_place(const Program& program, ValueId tensor) {
  const auto found = std::ranges::lower_bound(program.places, tensor, {}, &StatedPlace::value);
  return found != program.places.end() && found->value == tensor ? &*found : nullptr;
}

std::optional<MemoryPlace> place_of_owner(const Program& program, ValueId tensor) {
  if (const StatedPlace* stated = stated_place(program, tensor)) return stated->place;
  return program.placed ? rows_of(program, tensor) : std::nullopt;
}

std::optional<MemoryPlace> place_of_view(const Program& program, const Node& view, std::size_t output,
                                         const MemoryPlace& base) {
  if (view.target == "aten::view" && view.overload == "dtype") return std::nullopt;  // other elements
  return by_rule({program, view, output, base});
}

namespace {

// An axis of one element may have any stride.
bool same_strides(const Sizes& sizes, const Sizes& one, const Sizes& other) {
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    if (!is_one(sizes[axis]) && !certainly_equal(one[axis], other[axis])) return false;
  }
  return true;
}

}  // namespace

bool in_rows(const MemoryPlace& place) {
  return same_strides(place.sizes, place.strides, dense_strides(place.sizes, axes(place.sizes.size())));
}

bool lies_as(const MemoryPlace& one, const MemoryPlace& other) {
  return one.sizes.size() == other.sizes.size() && certainly_equal(one.offset, other.offset) &&
         same_strides(one.sizes, one.strides, other.strides);
}

// The innermost axis is one of stride 1, the next one's stride is that axis' length, and so on.
std::optional<std::vector<std::size_t>> order_in_memory(const MemoryPlace& place) {
  std::vector<std::size_t> left = axes(place.sizes.size()), order;
  Size dense = 1;
  while (!left.empty()) {
    const auto next = std::find_if(left.rbegin(), left.rend(), [&](std::size_t axis) {
      return is_one(place.sizes[axis]) || certainly_equal(place.strides[axis], dense);
    });
    if (next == left.rend()) return std::nullopt;
    dense = dense * place.sizes[*next];
    order.insert(order.begin(), *next);
    left.erase(std::next(next).base());
  }
  return order;
}

namespace {

Size span_without(const MemoryPlace& place, std::optional<std::size_t> without) {
  Size sum = 0;
  for (std::size_t i = 0; i < place.sizes.size(); ++i) {
    if (i != without) sum = sum + (place.sizes[i] - 1) * place.strides[i];
  }
  return sum;
}

void drop_axis(MemoryPlace& place, std::size_t axis) {
  place.sizes.erase(place.sizes.begin() + static_cast<std::ptrdiff_t>(axis));
  place.strides.erase(place.strides.begin() + static_cast<std::ptrdiff_t>(axis));
}

// Drops axes one after the other along which elements differ whatever they are along the others: `beyond(axis)`.
void drop_axes(MemoryPlace& one, MemoryPlace* other, const auto& beyond) {
  for (std::size_t axis = 0; axis < one.sizes.size();) {
    if (!beyond(axis)) {
      ++axis;
      continue;
    }
    drop_axis(one, axis);
    if (other != nullptr) drop_axis(*other, axis);
    axis = 0;
  }
}

}  // namespace

bool elements_differ(const Program& program, const MemoryPlace& place) {
  MemoryPlace left = place;
  drop_axes(left, nullptr, [&](std::size_t axis) {
    return is_one(left.sizes[axis]) || at_least(program, left.strides[axis] - span_without(left, axis), 1);
  });
  return left.sizes.empty();
}

bool are_apart(const Program& program, const MemoryPlace& one, const MemoryPlace& other) {
  MemoryPlace a = one, b = other;
  Size apart = b.offset - a.offset;
  if (!at_least(program, apart, 0)) {
    std::swap(a, b);
    apart = b.offset - a.offset;
  }
  if (!at_least(program, apart, 0)) return false;
  if (a.sizes.size() == b.sizes.size()) {
    drop_axes(a, &b, [&](std::size_t axis) {
      const Size& stride = a.strides[axis];
      return certainly_equal(a.sizes[axis], b.sizes[axis]) && certainly_equal(stride, b.strides[axis]) &&
             at_least(program, stride + apart - span_without(a, axis), 1) &&
             at_least(program, stride - apart - span_without(b, axis), 1);
    });
  }
  if (at_least(program, apart - span_without(a, std::nullopt), 1)) return true;
  std::int64_t step = 0;  // a common divisor of all strides
  for (const MemoryPlace* each : {&a, &b}) {
    for (const Size& stride : each->strides) step = std::gcd(step, stride.integer().value_or(1));
  }
  return step > 1 && apart.is_integer() && apart.number() % step != 0;
}

std::optional<MemoryPlace> with_separate_axes(const Program& program, ValueId tensor) {
  auto sizes = sizes_of(program, tensor);
  if (!sizes) return std::nullopt;
  MemoryPlace place{tensor, 0, std::move(*sizes), {}};
  for (std::size_t axis = 0; axis < place.sizes.size(); ++axis) {
    place.strides.push_back(local_symbol({unit, static_cast<int>(axis)}));
  }
  return place;
}

bool have_separate_ranges(const Program& program, const MemoryPlace& one, const MemoryPlace& other) {
  const auto along = [](MemoryPlace place, int axis) {
    const auto only = [&](Size& size) {
      size = size.with([&](SymbolId symbol) {
        const auto local = local_size(symbol);
        return local && local->value == unit ? Size(local->axis == axis ? 1 : 0) : Size::symbol(symbol);
      });
    };
    only(place.offset);
    for (Size& stride : place.strides) only(stride);
    return place;
  };
  for (int axis = 0; axis < local_axes - 1; ++axis) {
    if (are_apart(program, along(one, axis), along(other, axis))) return true;
  }
  return false;
}

// ---- view or copy -----------------------------------------------------------------------------------------------

bool returns_argument(const Program& program, const Node& node) {
  const OperatorFacts& facts = facts_of(node.target);
  if (facts.memory != ResultMemory::argument) return false;
  const auto flag = [&](const char* name) {
    const Argument* given = node.find(name);
    return given == nullptr ? std::nullopt : known_integer(program, *given);
  };
  if (facts.identity == Identity::not_training) return flag("train") == 0;
  if (facts.identity != Identity::same_dtype) return true;
  const auto* viewed = node.arguments.front().value.as<ValueRef>();
  return viewed != nullptr && flag("copy").value_or(0) == 0 &&
         program.values[viewed->id].type.dtype == program.values[node.outputs.front()].type.dtype;
}

bool shares_by_strides(const Node& node) {
  const OperatorFacts& facts = facts_of(node.target);
  if (facts.memory == ResultMemory::by_strides) return true;
  if (facts.memory != ResultMemory::argument || facts.identity != Identity::same_dtype) return false;
  const Argument* format = node.find("memory_format");
  return format != nullptr && !format->is_none();
}

Sharing sharing_of(const Program& program, const Node& node, const std::optional<MemoryPlace>& base) {
  using Kind = Sharing::Kind;
  if (const StatedPlace* stated = stated_place(program, node.outputs.front())) {
    if (!stated->place) return {};
    return {stated->place->memory == node.outputs.front() ? Kind::copy : Kind::view, {}};
  }
  const auto sizes = sizes_of(program, node.outputs.front());
  if (!base || !sizes) return {};
  const ViewForm form = facts_of(node.target).view;
  const std::size_t rank = base->sizes.size();
  if (form == ViewForm::contiguous) return where_in_order(program, *base, asked_order(node, rank));
  if (form == ViewForm::reshape && base->sizes == *sizes) return {Kind::view, {}};
  if (form == ViewForm::reshape) return where_divided(program, *base, *sizes);
  const Format format = memory_format(node);
  if (format == Format::preserve) return {Kind::view, {}};
  // to() looks at the strides of images alone, and sees in them which format they have.
  if (rank != 4 && rank != 5) return format == Format::rows ? Sharing{Kind::view, {}} : Sharing();
  const auto is_long = [](const Size& size) { return size.is_integer() && size.number() > 1; };
  std::vector<std::size_t> order = axes(rank);
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  const bool rows = in_rows(*base);
  const bool certain =
      rows ? std::any_of(base->sizes.begin() + 1, base->sizes.end(), is_long)
           : is_long(base->sizes[1]) && same_strides(base->sizes, base->strides, dense_strides(base->sizes, order));
  if (!certain) return {};
  return {rows == (format == Format::channels_last) ? Kind::copy : Kind::view, {}};
}

}  // namespace whence
