// Reshapes that are views or copies, by strides, which a Program does not hold. It matters where one is written
// through: there the readers, who see the memory, add memory_argument to it, an empty list.
#pragma once

#include <string_view>
#include <unordered_set>
#include <vector>

#include "schema/program.h"

namespace whence {

// True if an operator's name says that it writes to its first argument: "relu_", not "__and__".
inline bool is_in_place_name(std::string_view name) { return name.ends_with('_') && !name.ends_with("__"); }

// aten::reshape, aten::contiguous and their like.
bool is_view_by_strides(std::string_view target);

// `written` is about to be written in place: of the nodes that it comes from, those are marked whose results are in
// `views`, the results of reshapes that share their argument's memory.
void note_written_views(std::vector<Node>& nodes, ValueId written, const std::unordered_set<ValueId>& views);

}  // namespace whence
