// Squeezes of axes whose size is dynamic: a Program has one rank for each result, PyTorch another where the size is 1.
// The reader of .pt2 files and the recorder both say so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence {

// The axes that an aten::squeeze drops where they are 1 long.
std::vector<std::size_t> squeezed_axes(const Node& squeeze, std::size_t rank);

// Says what the file does with such an axis, at every size.
enum class SqueezedAxis : std::uint8_t {
  kept,
  dropped,
  dropped_unless_empty,  // x[:1], which is 1 long or 0
};

struct SettledSqueeze {
  Diagnostic warning;
  std::optional<Constraint> assumed;  // nullopt if axes of inputs do not tell
};

// `length`: of the axis, over symbols that are not derived; `as`: "as the archive says".
SettledSqueeze settled_squeeze(const Program& program, SqueezedAxis how, std::size_t axis, const Size& length,
                               const std::string& as, Place where);

}  // namespace whence
