// Places of tensors in memory: what a view operator does with axes, offset and strides, for any sizes; whether two
// tensors share elements; whether a reshape is a view or a copy.
//
// Who asks: the readers, of every tensor that they read, to state what differs from it; annotator/lower. What it does,
// an operator's row in operator_facts.cpp names (ViewForm); the rule of each form is in view_places.cpp, and nowhere
// else.
// A length that no symbol of the program stands for has a local one: that axis of that tensor, or that number.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "schema/operator_facts.h"
#include "schema/program.h"

namespace whence {

// ---- lengths ------------------------------------------------------------------------------------------------------

// The meaning of a local symbol: the length of an axis of a tensor, or (axis -1) a number of the program.
struct LocalSize {
  static constexpr int axes = 15;                    // those with symbols
  static constexpr ValueId no_value{(1 << 26) - 2};  // stands for the unit in which an axis alone counts

  ValueId value = none_id;
  int axis = 0;
};
std::optional<LocalSize> local_size(SymbolId symbol);
Size local_symbol(const LocalSize& local);
// The lengths of a tensor's axes; nullopt if the rank is not known.
std::optional<std::vector<Size>> sizes_of(const Program& program, ValueId tensor);
SizeRange range_in(const Program& program, SymbolId symbol);
std::optional<std::int64_t> example_of(const Program& program, SymbolId symbol);
bool is_at_least(const Program& program, const Size& size, std::int64_t least);  // for certain
bool is_of_axes(const Program& program, const Size& size);                       // follows from axes of inputs
std::vector<std::size_t> axes_in_order(std::size_t rank);

// ---- places -------------------------------------------------------------------------------------------------------

// Memory of its own, row after row.
std::optional<MemoryPlace> rows_of(const Program& program, ValueId tensor);
// The place of a tensor that is no view: as a reader stated it, or rows; nullopt if it is not known.
std::optional<MemoryPlace> place_of_owner(const Program& program, ValueId tensor);
// Strides of memory without gaps, in which the axes follow each other in this order, the outermost first.
std::vector<Size> dense_strides(const std::vector<Size>& sizes, const std::vector<std::size_t>& order);
const StatedPlace* stated_place(const Program& program, ValueId tensor);
// The same at every axis that has not one element, which may have any stride.
bool same_strides(const std::vector<Size>& sizes, const std::vector<Size>& one, const std::vector<Size>& other);
bool in_rows(const MemoryPlace& place);  // without gaps, whatever the sizes are; the offset is any
bool lies_as(const MemoryPlace& one, const MemoryPlace& other);  // in whatever memory, elements at the same places
// The axes from the outermost to the innermost of memory without gaps; nullopt if they do not lie so for certain.
std::optional<std::vector<std::size_t>> order_in_memory(const MemoryPlace& place);

// ---- views: view_places.cpp ---------------------------------------------------------------------------------------

// The place of result `output` of a view, whose argument's place is `base`; nullopt if no rule tells it.
std::optional<MemoryPlace> place_of_view(const Program& program, const Node& view, std::size_t output,
                                         const MemoryPlace& base);

// As place_of_view, where `base` counts in something else than memory: rows of its owner, or each axis by itself. A
// view that its argument's strides decide leaves the elements as they are; one that gives strides itself counts in
// memory.
std::optional<MemoryPlace> arrangement_of_view(const Program& program, const Node& view, std::size_t output,
                                               const MemoryPlace& base);

// ---- elements in common: place_overlaps.cpp -----------------------------------------------------------------------

// Certain for all sizes: that no two elements are one; that no element of the one is one of the other.
bool elements_differ(const Program& program, const MemoryPlace& place);
bool are_apart(const Program& program, const MemoryPlace& one, const MemoryPlace& other);
// A place that tells the axes of `tensor` apart, as if none of them reached into another, whatever their lengths are;
// and whether views of such a place have no index of some axis in common.
std::optional<MemoryPlace> with_separate_axes(const Program& program, ValueId tensor);
bool have_separate_ranges(const Program& program, const MemoryPlace& one, const MemoryPlace& other);

// ---- view or copy: place_sharing.cpp ------------------------------------------------------------------------------

// The order of axes in memory that contiguous() is asked for.
std::vector<std::size_t> asked_order(const Node& node, std::size_t rank);

// True if this call of an operator gives its argument back, though its schema does not say so or says less.
bool returns_argument(const Program& program, const Node& node);
// True for reshapes, and for to(memory_format=...), which gives its argument back where that has the format.
bool shares_by_strides(const Node& node);

// The answer for one call: its result shares its argument's memory, or is a copy, or that depends on sizes.
struct Sharing {
  enum class Kind : std::uint8_t { unknown, view, copy, depends };
  Kind kind = Kind::unknown;
  std::vector<Constraint> condition;  // depends: a view where all of these hold
};
// `base`: the argument's place, as far as it is known. Of a tensor without elements the answer does not matter.
Sharing sharing_of(const Program& program, const Node& node, const std::optional<MemoryPlace>& base);

// ---- a whole program: place_tensors.cpp ---------------------------------------------------------------------------

// The place of a tensor as far as a reader's runs or archive tell: `derived`, if they agree, another, or none.
using PlaceWitness = std::function<std::optional<MemoryPlace>(ValueId, const std::optional<MemoryPlace>& derived)>;

// Follows memory through the program, and states places where a witness says another one than the rules.
void place_tensors(Program& program, const PlaceWitness& witness);

// Values have other numbers now; places of those that are gone (none_id) go, too.
void renumber_places(Program& program, const IndexedVector<ValueId, ValueId>& renumbered);

}  // namespace whence
