// Reshapes that are views or copies, by strides, which a Program does not hold. It matters where one is written
// through: there the readers, who see the memory, add memory_argument to it, an empty list.
#pragma once

#include <string_view>
#include <unordered_set>
#include <vector>

#include "schema/program.h"

namespace whence {

// `written` is about to be written in place: of the nodes that it comes from, those are marked whose results are in
// `views`, the results of reshapes that share their argument's memory.
void note_written_views(std::vector<Node>& nodes, ValueId written, const std::unordered_set<ValueId>& views);

}  // namespace whence
