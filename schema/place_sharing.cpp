// Decides from the argument's layout whether a reshape, contiguous() or to(memory_format=...) is a view or a copy.
#include <algorithm>
#include <utility>

#include "schema/place.h"

namespace whence {

namespace {

using Sizes = std::vector<Size>;

Size product(auto from, auto to) {
  Size result = 1;
  for (; from != to; ++from) result = result * *from;
  return result;
}

// The axis order that memory_format requests: channels_last, or ChannelsLast in TorchScript.
enum class Format : std::uint8_t { rows, channels_last, preserve };
Format memory_format(const Node& node) {
  const Argument* argument = node.find("memory_format");
  const auto* format = argument == nullptr ? nullptr : argument->as<Keyword>();
  if (format == nullptr || format->name.empty()) return Format::rows;
  return format->name[0] == 'c' || format->name[0] == 'C'
             ? (format->name[1] == 'h' ? Format::channels_last : Format::rows)
             : Format::preserve;
}

// Collects comparisons, at least one of which must hold. Leaves out comparisons that never hold, and records if one
// always holds.
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

  // Adds this constraint to `sharing`, which is a view only if all its constraints hold.
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

// A view if each axis has the dense stride for this order, or length 1.
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

// A view if, for each two adjacent axes of the old shape (ignoring axes of length 1), the two are dense in memory, or
// the new shape also has a boundary between them.
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
      // Includes the axes between the two. If one of them is not 1 long, a comparison above already holds.
      const auto at = [&](std::size_t axis) { return base.sizes.begin() + static_cast<std::ptrdiff_t>(axis); };
      any.add(base.strides[outer], Relation::equal, product(at(outer + 1), at(inner + 1)) * base.strides[inner]);
      const Size inner_elements = product(at(outer + 1), base.sizes.end());
      for (std::size_t from = 0; from <= sizes.size(); ++from) {
        any.add(product(sizes.begin() + static_cast<std::ptrdiff_t>(from), sizes.end()), Relation::equal,
                inner_elements);
      }
      any.join(sharing);
    }
  }
  return sharing;
}

}  // namespace

std::vector<std::size_t> requested_order(const Node& node, std::size_t rank) {
  std::vector<std::size_t> order = axes_in_order(rank);
  if (memory_format(node) == Format::channels_last && rank > 2) {
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  }
  return order;
}

bool returns_argument(const Program& program, const Node& node) {
  const OperatorFacts& facts = facts_of(node.target);
  if (facts.memory != ResultMemory::argument) return false;
  const auto flag = [&](const char* name) {
    const Argument* argument = node.find(name);
    return argument == nullptr ? std::nullopt : known_integer(program, *argument);
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
  if (form == ViewForm::contiguous) return where_in_order(program, *base, requested_order(node, rank));
  if (form == ViewForm::reshape && base->sizes == *sizes) return {Kind::view, {}};
  if (form == ViewForm::reshape) return where_divided(program, *base, *sizes);
  const Format format = memory_format(node);
  if (format == Format::preserve) return {Kind::view, {}};
  // to() derives the current format from the strides, and only for tensors of rank 4 and 5.
  if (rank != 4 && rank != 5) return format == Format::rows ? Sharing{Kind::view, {}} : Sharing();
  const auto is_long = [](const Size& size) { return size.is_integer() && size.number() > 1; };
  std::vector<std::size_t> order = axes_in_order(rank);
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  const bool rows = is_row_major(*base);
  const bool certain =
      rows ? std::any_of(base->sizes.begin() + 1, base->sizes.end(), is_long)
           : is_long(base->sizes[1]) && same_strides(base->sizes, base->strides, dense_strides(base->sizes, order));
  if (!certain) return {};
  return {rows == (format == Format::channels_last) ? Kind::copy : Kind::view, {}};
}

}  // namespace whence
