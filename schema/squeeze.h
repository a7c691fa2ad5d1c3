// Squeezes of axes whose size is dynamic: a Program has one rank for each result, PyTorch another where the size is 1.
// The reader of .pt2 files and the recorder both say so.
#pragma once

#include <string>
#include <vector>

#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence {

// The axes that an aten::squeeze drops where they are 1 long.
std::vector<std::size_t> squeezed_axes(const Node& squeeze, std::size_t rank);

// The warning that the file drops or keeps such an axis in any case; `as`: "as the archive says".
Diagnostic settled_squeeze(bool drops, std::size_t axis, const std::string& as, Place where);

}  // namespace whence
