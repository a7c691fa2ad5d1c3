#include "annotator/lower/memory_layout.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "annotator/lower/pass.h"

namespace whence::lower {

using program::known_integer;

namespace {

using Sizes = std::vector<std::int64_t>;

std::optional<Sizes> example_sizes(const Program& program, ValueId id) {
  const auto& dims = program.values[id].type.dims;
  if (!dims) return std::nullopt;
  Sizes sizes;
  for (const Dim& dim : *dims) {
    if (dim.size < 0) return std::nullopt;
    sizes.push_back(dim.size);
  }
  return sizes;
}

MemoryLayout row_major(Sizes sizes) {
  MemoryLayout layout{0, std::move(sizes), {}};
  layout.strides.assign(layout.sizes.size(), 1);
  for (std::size_t i = layout.sizes.size(); i-- > 1;) layout.strides[i - 1] = layout.strides[i] * layout.sizes[i];
  return layout;
}

// ---- views ------------------------------------------------------------------------------------------------------

// A view operation whose result is asked for.
struct View {
  const Program& program;
  const Node& node;
  std::size_t output;
  MemoryLayout layout;  // the viewed argument's

  std::optional<std::int64_t> integer(std::string_view name) const {
    const Argument* argument = node.find(name);
    return argument == nullptr ? std::nullopt : known_integer(program, *argument);
  }
  // An axis that is given by number, from the front; `extra`: axes that the result has more.
  std::optional<std::size_t> axis(std::string_view name, std::optional<std::int64_t> otherwise = std::nullopt,
                                  std::int64_t extra = 0) const {
    const Argument* argument = node.find(name);
    const auto number = argument == nullptr ? otherwise : known_integer(program, *argument);
    const std::int64_t rank = static_cast<std::int64_t>(layout.sizes.size()) + extra;
    if (!number || *number < -rank || *number >= rank) return std::nullopt;
    return static_cast<std::size_t>(*number < 0 ? *number + rank : *number);
  }
  std::optional<Sizes> result_sizes() const { return example_sizes(program, node.outputs[output]); }
};

using LayoutRule = std::optional<MemoryLayout> (*)(View);

std::optional<MemoryLayout> without_axis(MemoryLayout layout, std::size_t axis, std::int64_t index) {
  layout.offset += (index < 0 ? index + layout.sizes[axis] : index) * layout.strides[axis];
  layout.sizes.erase(layout.sizes.begin() + static_cast<std::ptrdiff_t>(axis));
  layout.strides.erase(layout.strides.begin() + static_cast<std::ptrdiff_t>(axis));
  return layout;
}

std::optional<MemoryLayout> select(View view) {
  const auto axis = view.axis("dim");
  const auto index = view.integer("index");
  return axis && index ? without_axis(std::move(view.layout), *axis, *index) : std::nullopt;
}

std::optional<MemoryLayout> unbind(View view) {
  const auto axis = view.axis("dim", 0);
  return axis ? without_axis(std::move(view.layout), *axis, static_cast<std::int64_t>(view.output)) : std::nullopt;
}

std::optional<MemoryLayout> cut(View view, std::size_t axis, std::int64_t start, std::int64_t step) {
  const auto sizes = view.result_sizes();
  if (!sizes || sizes->size() != view.layout.sizes.size()) return std::nullopt;
  view.layout.offset += start * view.layout.strides[axis];
  view.layout.strides[axis] *= step;
  view.layout.sizes = *sizes;
  return std::move(view.layout);
}

std::optional<MemoryLayout> slice(View view) {
  const auto axis = view.axis("dim", 0);
  if (!axis) return std::nullopt;
  const Argument *start = view.node.find("start"), *step = view.node.find("step");
  const auto first = start == nullptr || start->is_none() ? 0 : known_integer(view.program, *start);
  const auto by = step == nullptr || step->is_none() ? 1 : known_integer(view.program, *step);
  if (!first || !by) return std::nullopt;
  const std::int64_t size = view.layout.sizes[*axis], wrapped = *first < 0 ? *first + size : *first;
  return cut(std::move(view), *axis, std::clamp<std::int64_t>(wrapped, 0, size), *by);
}

std::optional<MemoryLayout> narrow(View view) {
  const auto axis = view.axis("dim");
  const auto start = view.integer("start");
  if (!axis || !start) return std::nullopt;
  const std::int64_t first = *start < 0 ? *start + view.layout.sizes[*axis] : *start;
  return cut(std::move(view), *axis, first, 1);
}

// One part of a split or chunk: it begins where those before it end.
std::optional<MemoryLayout> part(View view) {
  const auto axis = view.axis("dim", 0);
  if (!axis) return std::nullopt;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < view.output; ++i) {
    const auto sizes = example_sizes(view.program, view.node.outputs[i]);
    if (!sizes || *axis >= sizes->size()) return std::nullopt;
    start += (*sizes)[*axis];
  }
  return cut(std::move(view), *axis, start, 1);
}

std::optional<MemoryLayout> exchanged(View view, std::size_t a, std::size_t b) {
  std::swap(view.layout.sizes[a], view.layout.sizes[b]);
  std::swap(view.layout.strides[a], view.layout.strides[b]);
  return std::move(view.layout);
}

std::optional<MemoryLayout> transpose(View view) {
  const bool axes = view.node.find("axis0") != nullptr;
  const auto a = view.axis(axes ? "axis0" : "dim0"), b = view.axis(axes ? "axis1" : "dim1");
  return a && b ? exchanged(std::move(view), *a, *b) : std::nullopt;
}

std::optional<MemoryLayout> transpose_last(View view) {
  const std::size_t rank = view.layout.sizes.size();
  return rank < 2 ? std::move(view.layout) : exchanged(std::move(view), rank - 2, rank - 1);
}

std::optional<MemoryLayout> reverse_axes(View view) {
  std::ranges::reverse(view.layout.sizes);
  std::ranges::reverse(view.layout.strides);
  return std::move(view.layout);
}

// The axes `source` come to stand at `destination`; the others fill the places that are left, in their order.
std::optional<MemoryLayout> move_axes(View view) {
  const std::size_t rank = view.layout.sizes.size();
  const auto axes = [&](const char* name) {
    std::vector<std::size_t> found;
    const Argument* given = view.node.find(name);
    const auto* list = given == nullptr ? nullptr : given->as<ArgumentList>();
    for (std::size_t i = 0; given != nullptr && i < (list == nullptr ? 1 : list->size()); ++i) {
      const auto number = known_integer(view.program, list == nullptr ? *given : (*list)[i]);
      const auto wrapped = number && *number < 0 ? *number + static_cast<std::int64_t>(rank) : number.value_or(-1);
      if (wrapped >= 0 && wrapped < static_cast<std::int64_t>(rank)) found.push_back(static_cast<std::size_t>(wrapped));
    }
    return found;
  };
  const std::vector<std::size_t> source = axes("source"), destination = axes("destination");
  if (source.empty() || source.size() != destination.size()) return std::nullopt;
  std::vector<std::size_t> rest(rank);
  std::iota(rest.begin(), rest.end(), 0);
  std::erase_if(rest, [&](std::size_t axis) { return std::ranges::find(source, axis) != source.end(); });
  MemoryLayout moved{view.layout.offset, {}, {}};
  auto next = rest.begin();
  for (std::size_t at = 0; at < rank; ++at) {
    const auto named = std::ranges::find(destination, at);
    if (named == destination.end() && next == rest.end()) return std::nullopt;
    const std::size_t from = named != destination.end() ? source[named - destination.begin()] : *next++;
    moved.sizes.push_back(view.layout.sizes[from]);
    moved.strides.push_back(view.layout.strides[from]);
  }
  return moved;
}

std::optional<MemoryLayout> permute(View view) {
  const Argument* given = view.node.find("dims");
  const auto* order = given == nullptr ? nullptr : given->as<ArgumentList>();
  const std::size_t rank = view.layout.sizes.size();
  if (order == nullptr || order->size() != rank) return std::nullopt;
  MemoryLayout moved{view.layout.offset, {}, {}};
  for (const Argument& axis : *order) {
    const auto number = known_integer(view.program, axis);
    if (!number) return std::nullopt;
    const auto from = static_cast<std::size_t>(*number < 0 ? *number + static_cast<std::int64_t>(rank) : *number);
    if (from >= rank) return std::nullopt;
    moved.sizes.push_back(view.layout.sizes[from]);
    moved.strides.push_back(view.layout.strides[from]);
  }
  return moved;
}

std::optional<MemoryLayout> unsqueeze(View view) {
  const auto axis = view.axis("dim", std::nullopt, 1);
  if (!axis) return std::nullopt;
  view.layout.sizes.insert(view.layout.sizes.begin() + static_cast<std::ptrdiff_t>(*axis), 1);
  view.layout.strides.insert(view.layout.strides.begin() + static_cast<std::ptrdiff_t>(*axis), 0);
  return std::move(view.layout);
}

// New axes stand in front; an axis of size 1 may become longer. Both repeat what there is.
std::optional<MemoryLayout> expanded(MemoryLayout layout, const Sizes& sizes) {
  if (sizes.size() < layout.sizes.size()) return std::nullopt;
  const std::size_t more = sizes.size() - layout.sizes.size();
  layout.sizes.insert(layout.sizes.begin(), more, 1);
  layout.strides.insert(layout.strides.begin(), more, 0);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (layout.sizes[i] == sizes[i]) continue;
    if (layout.sizes[i] != 1) return std::nullopt;
    layout.sizes[i] = sizes[i];
    layout.strides[i] = 0;
  }
  return layout;
}

std::optional<MemoryLayout> expand(View view) {
  const auto sizes = view.result_sizes();
  return sizes ? expanded(std::move(view.layout), *sizes) : std::nullopt;
}

// The same elements in the same order: axes that lie behind one another without a gap are one axis, which the new sizes
// divide. nullopt where they do not, and PyTorch copies.
std::optional<MemoryLayout> reshape(View view) {
  const auto sizes = view.result_sizes();
  if (!sizes) return std::nullopt;
  MemoryLayout dense{view.layout.offset, {}, {}};
  for (std::size_t i = 0; i < view.layout.sizes.size(); ++i) {
    const std::int64_t size = view.layout.sizes[i], stride = view.layout.strides[i];
    if (size == 1) continue;
    if (!dense.sizes.empty() && dense.strides.back() == size * stride) {
      dense.sizes.back() *= size;
      dense.strides.back() = stride;
    } else {
      dense.sizes.push_back(size);
      dense.strides.push_back(stride);
    }
  }
  MemoryLayout shaped{dense.offset, *sizes, Sizes(sizes->size(), 0)};
  for (std::size_t i = sizes->size(); i-- > 0;) {
    const std::int64_t size = (*sizes)[i];
    if (size == 1) continue;
    while (!dense.sizes.empty() && dense.sizes.back() == 1) dense.sizes.pop_back(), dense.strides.pop_back();
    if (dense.sizes.empty() || size == 0 || dense.sizes.back() % size != 0) return std::nullopt;
    shaped.strides[i] = dense.strides.back();
    dense.strides.back() *= size;
    dense.sizes.back() /= size;
  }
  return shaped;
}

std::optional<MemoryLayout> diagonal(View view) {
  const auto first = view.axis("dim1", 0), second = view.axis("dim2", 1);
  const auto sizes = view.result_sizes();
  const Argument* given = view.node.find("offset");
  const auto offset = given == nullptr ? std::optional<std::int64_t>(0) : known_integer(view.program, *given);
  if (!first || !second || !sizes || !offset || *first == *second) return std::nullopt;
  MemoryLayout& layout = view.layout;
  layout.offset += *offset >= 0 ? *offset * layout.strides[*second] : -*offset * layout.strides[*first];
  const std::int64_t stride = layout.strides[*first] + layout.strides[*second];
  for (const std::size_t axis : {std::max(*first, *second), std::min(*first, *second)}) {
    layout = *without_axis(std::move(layout), axis, 0);
  }
  layout.strides.push_back(stride);
  layout.sizes = *sizes;
  return layout.strides.size() == layout.sizes.size() ? std::optional(std::move(layout)) : std::nullopt;
}

// Overlapping windows, as a further axis.
std::optional<MemoryLayout> unfold(View view) {
  const auto axis = view.axis("dimension");
  const auto sizes = view.result_sizes();
  const auto step = view.integer("step");
  if (!axis || !sizes || !step || sizes->size() != view.layout.sizes.size() + 1) return std::nullopt;
  view.layout.strides.push_back(view.layout.strides[*axis]);
  view.layout.strides[*axis] *= *step;
  view.layout.sizes = *sizes;
  return std::move(view.layout);
}

const std::unordered_map<std::string_view, LayoutRule>& layout_rules() {
  static const std::unordered_map<std::string_view, LayoutRule> table{
      {"aten::select", select},
      {"aten::unbind", unbind},
      {"aten::slice", slice},
      {"aten::narrow", narrow},
      {"aten::split", part},
      {"aten::split_with_sizes", part},
      {"aten::tensor_split", part},
      {"aten::chunk", part},
      {"aten::transpose", transpose},
      {"aten::swapaxes", transpose},
      {"aten::swapdims", transpose},
      {"aten::t", transpose_last},
      {"aten::mT", transpose_last},
      {"aten::permute", permute},
      {"aten::unsqueeze", unsqueeze},
      {"aten::expand", expand},
      {"aten::expand_as", expand},
      {"aten::broadcast_to", expand},
      {"aten::diagonal", diagonal},
      {"aten::unfold", unfold},
      {"aten::_reshape_alias", reshape},
      {"aten::contiguous", reshape},
      {"aten::flatten", reshape},
      {"aten::ravel", reshape},
      {"aten::reshape", reshape},
      {"aten::reshape_as", reshape},
      {"aten::squeeze", reshape},
      {"aten::unflatten", reshape},
      {"aten::view", reshape},
      {"aten::view_as", reshape},
      {"aten::atleast_1d", reshape},
      {"aten::atleast_2d", reshape},
      {"aten::atleast_3d", reshape},
      {"aten::mH", transpose_last},
      {"aten::adjoint", transpose_last},
      {"aten::matrix_H", transpose_last},
      {"aten::numpy_T", reverse_axes},
      {"aten::movedim", move_axes},
      {"aten::moveaxis", move_axes},
  };
  return table;
}

// ---- what two layouts share -------------------------------------------------------------------------------------

std::int64_t span(const MemoryLayout& layout, std::size_t without) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < layout.sizes.size(); ++i) {
    if (i != without) sum += (layout.sizes[i] - 1) * layout.strides[i];
  }
  return sum;
}

// True if elements that differ along this axis lie apart whatever they are along the others: it goes beyond all that
// the others span, or stays within the steps that they make.
bool stands_alone(const MemoryLayout& a, const MemoryLayout& b, std::size_t axis) {
  if (a.sizes[axis] != b.sizes[axis] || a.strides[axis] != b.strides[axis] || a.strides[axis] == 0) return false;
  const std::int64_t apart = std::abs(a.offset - b.offset), stride = a.strides[axis];
  if (stride > std::max(span(a, axis), span(b, axis)) + apart) return true;
  std::int64_t step = apart;
  for (std::size_t i = 0; i < a.sizes.size(); ++i) {
    if (i == axis) continue;
    if (a.sizes[i] > 1) step = std::gcd(step, a.strides[i]);
    if (b.sizes[i] > 1) step = std::gcd(step, b.strides[i]);
  }
  return step == 0 || (a.sizes[axis] - 1) * stride < step;
}

// Leaves out axes with the same size and stride in both layouts that do not interleave with others: such axes do not
// affect the overlap, and few remain.
void leave_out_common_axes(MemoryLayout& a, MemoryLayout& b) {
  if (a.sizes.size() != b.sizes.size()) return;
  for (std::size_t axis = 0; axis < a.sizes.size();) {
    if (!stands_alone(a, b, axis)) {
      ++axis;
      continue;
    }
    a = *without_axis(std::move(a), axis, 0);
    b = *without_axis(std::move(b), axis, 0);
    axis = 0;
  }
}

std::int64_t element_count(const MemoryLayout& layout) {
  std::int64_t count = 1;
  for (const std::int64_t size : layout.sizes) count *= size;
  return count;
}

// visit(place, element): places in row-major order, and which of the owner's elements is there.
template <class Visit>
void for_each_element(const MemoryLayout& layout, Visit visit) {
  const std::int64_t count = element_count(layout);
  Sizes index(layout.sizes.size(), 0);
  std::int64_t element = layout.offset;
  for (std::int64_t place = 0; place < count; ++place) {
    visit(place, element);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      element += layout.strides[axis];
      if (++index[axis] < layout.sizes[axis]) break;
      element -= layout.strides[axis] * layout.sizes[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

bool MemoryLayout::repeats_elements() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride and size
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 1) axes.emplace_back(strides[i], sizes[i]);
  }
  std::ranges::sort(axes);
  std::int64_t spanned = 0;
  for (const auto& [stride, size] : axes) {
    if (stride <= spanned) return true;
    spanned += (size - 1) * stride;
  }
  return false;
}

std::optional<MemoryLayout> owner_layout(const Program& program, ValueId owner) {
  auto sizes = example_sizes(program, owner);
  return sizes ? std::optional(row_major(std::move(*sizes))) : std::nullopt;
}

std::optional<MemoryLayout> view_layout(const Program& program, const Node& view, std::size_t output,
                                        const MemoryLayout& base) {
  const auto rule = layout_rules().find(view.target);
  if (rule == layout_rules().end() || (view.target == "aten::view" && view.overload == "dtype")) return std::nullopt;
  return rule->second({program, view, output, base});
}

bool reads_what_it_overwrites(MemoryLayout target, MemoryLayout source, bool in_place) {
  constexpr std::int64_t max_elements = 1 << 20;  // elements to compare one by one
  if (in_place) {
    auto as_target = expanded(source, target.sizes);
    in_place = as_target.has_value();
    if (as_target) source = std::move(*as_target);
  }
  leave_out_common_axes(target, source);
  if (element_count(target) > max_elements || element_count(source) > max_elements) return true;
  std::unordered_map<std::int64_t, std::int64_t> written_at;
  for_each_element(target, [&](std::int64_t place, std::int64_t element) { written_at.emplace(element, place); });
  bool found = false;
  for_each_element(source, [&](std::int64_t place, std::int64_t element) {
    const auto written = written_at.find(element);
    found |= written != written_at.end() && (!in_place || written->second != place);
  });
  return found;
}

}  // namespace whence::lower
