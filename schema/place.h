// Memory layout of tensors (MemoryPlace) with symbolic sizes: the offset and strides of views, whether two tensors
// share elements, and whether a reshape is a view or a copy.
//
// Used by annotator/lower and by the readers of programs, which store only the layouts that differ from these rules.
// The form of a view is in its row of operator_facts.cpp (ViewForm), and the rule for each form is in view_places.cpp.
// A length without a symbol in the program gets a local symbol for the axis of the tensor or for the number.
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
  static constexpr int axes = 15;                    // maximum number of axes with symbols
  static constexpr ValueId no_value{(1 << 26) - 2};  // with an axis: the unit stride of with_separate_axes()

  ValueId value = none_id;
  int axis = 0;
};
std::optional<LocalSize> local_size(SymbolId symbol);
Size local_symbol(const LocalSize& local);
// Returns the lengths of a tensor's axes, nullopt for an unknown rank.
std::optional<std::vector<Size>> sizes_of(const Program& program, ValueId tensor);
SizeRange range_in(const Program& program, SymbolId symbol);
std::optional<std::int64_t> example_of(const Program& program, SymbolId symbol);
bool is_at_least(const Program& program, const Size& size, std::int64_t least);  // in all runs
bool depends_on_axes_only(const Program& program, const Size& size);             // depends only on axes of inputs
std::vector<std::size_t> axes_in_order(std::size_t rank);

// ---- layouts ------------------------------------------------------------------------------------------------------

// Returns the layout of a tensor in new row-major memory.
std::optional<MemoryPlace> row_major_place(const Program& program, ValueId tensor);
// Returns the layout of a tensor that is not a view: stated by a reader, or row-major. nullopt if unknown.
std::optional<MemoryPlace> place_of_owner(const Program& program, ValueId tensor);
// Returns the strides of dense memory whose axes have this order, outermost first.
std::vector<Size> dense_strides(const std::vector<Size>& sizes, const std::vector<std::size_t>& order);
const StatedPlace* stated_place(const Program& program, ValueId tensor);
// Compares the strides of all axes except those of length 1, which may have any stride.
bool same_strides(const std::vector<Size>& sizes, const std::vector<Size>& one, const std::vector<Size>& other);
bool is_row_major(const MemoryPlace& place);  // row-major and dense for all sizes, at any offset
bool has_same_layout(const MemoryPlace& one, const MemoryPlace& other);  // equal offset and strides, in any memory
// Returns the axes of a dense layout, outermost first. nullopt if it is not certain that the layout is dense.
std::optional<std::vector<std::size_t>> order_in_memory(const MemoryPlace& place);

// ---- views: view_places.cpp ---------------------------------------------------------------------------------------

// Returns the layout of result `output` of a view whose argument has the layout `base`. nullopt if no rule applies.
std::optional<MemoryPlace> place_of_view(const Program& program, const Node& view, std::size_t output,
                                         const MemoryPlace& base);

// Like place_of_view, but for a `base` whose strides are not those in memory: row-major in its owner, or with separate
// axes. contiguous() is then a reshape, and as_strided() has no rule unless `base` is row-major.
std::optional<MemoryPlace> arrangement_of_view(const Program& program, const Node& view, std::size_t output,
                                               const MemoryPlace& base);

// ---- elements in common: place_overlaps.cpp -----------------------------------------------------------------------

// Returns true if no two elements of the layout share a memory location, for all sizes.
bool has_distinct_elements(const Program& program, const MemoryPlace& place);
// Returns true if two layouts have no memory location in common, for all sizes.
bool are_disjoint(const Program& program, const MemoryPlace& one, const MemoryPlace& other);
// Returns a layout in which each axis of `tensor` has a symbolic stride of its own, so that axes never overlap.
std::optional<MemoryPlace> with_separate_axes(const Program& program, ValueId tensor);
// Returns true if two views of this layout have disjoint index ranges along some axis.
bool have_separate_ranges(const Program& program, const MemoryPlace& one, const MemoryPlace& other);

// ---- view or copy: place_sharing.cpp ------------------------------------------------------------------------------

// Returns the axis order in memory that the memory_format argument of contiguous() requests.
std::vector<std::size_t> requested_order(const Node& node, std::size_t rank);

// Returns true if this call returns its first argument itself, which the schema does not state.
bool returns_argument(const Program& program, const Node& node);
// True for reshapes, and for to(memory_format=...), which returns an argument that already has the format.
bool shares_by_strides(const Node& node);

// States whether the result of a call shares its argument's memory, is a copy, or either depending on sizes.
struct Sharing {
  enum class Kind : std::uint8_t { unknown, view, copy, depends };
  Kind kind = Kind::unknown;
  std::vector<Constraint> condition;  // for `depends`: a view if all of these hold
};
// `base`: the argument's layout, if known. Tensors without elements are ignored: sharing does not matter for them.
Sharing sharing_of(const Program& program, const Node& node, const std::optional<MemoryPlace>& base);

// ---- a whole program: place_tensors.cpp ---------------------------------------------------------------------------

// Returns the layout that a reader observed: `derived` if it agrees, another layout, or nullopt if unknown.
using PlaceWitness = std::function<std::optional<MemoryPlace>(ValueId, const std::optional<MemoryPlace>& derived)>;

// Derives the layout of every tensor in execution order, and stores in Program::places the layouts that the reader
// observed differently.
void place_tensors(Program& program, const PlaceWitness& witness);

// Updates Program::places after values were renumbered, and drops the places of removed values (none_id).
void renumber_places(Program& program, const IndexedVector<ValueId, ValueId>& renumbered);

}  // namespace whence
