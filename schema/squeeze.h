// Warnings about squeezes of axes with dynamic size: in PyTorch the rank of the result depends on whether the size is
// 1, but a Program has one rank for each result. Shared by the reader of .pt2 files and the recorder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence {

// Returns the axes that an aten::squeeze drops if they are 1 long.
std::vector<std::size_t> squeezed_axes(const Node& squeeze, std::size_t rank);

// How the ONNX file treats a squeezed axis, at every size.
enum class SqueezedAxis : std::uint8_t {
  kept,
  dropped,
  dropped_unless_empty,  // for x[:1], whose length is 0 or 1
};

struct SettledSqueeze {
  Diagnostic warning;
  std::optional<Constraint> assumed;  // nullopt if the length does not depend only on input axes
};

// `length`: the axis length over symbols that are not derived. `as`: text such as "as the archive states".
SettledSqueeze settled_squeeze(const Program& program, SqueezedAxis how, std::size_t axis, const Size& length,
                               const std::string& as, Place where);

}  // namespace whence
