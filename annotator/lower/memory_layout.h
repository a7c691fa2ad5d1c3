// Memory layouts: the places that a view's elements have in the memory of the tensor that owns it, and the writes that
// read what they overwrite.
//
// Sizes are those of the example run. Elements of the owner count in row-major order, whatever its strides are: which
// elements two views share does not depend on them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schema/program.h"

namespace whence::lower {

struct MemoryLayout {
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes, strides;

  bool repeats_elements() const;  // one element at several places: an expanded axis, overlapping windows
};

// The layout of a tensor that is not a view. nullopt if its sizes are not known.
std::optional<MemoryLayout> owner_layout(const Program& program, ValueId owner);

// The layout of result `output` of a view operation, whose viewed argument has the layout `base`. nullopt if an
// argument is known at run time only, or the operator is not one of those that move axes and cut.
std::optional<MemoryLayout> view_layout(const Program& program, const Node& view, std::size_t output,
                                        const MemoryLayout& base);

// True if a write to `target` changes elements of `source` before they are read. Element by element (`in_place`), an
// element may be read where it is written; otherwise any shared element counts. Both lie in one owner's memory.
bool reads_what_it_overwrites(MemoryLayout target, MemoryLayout source, bool in_place);

}  // namespace whence::lower
