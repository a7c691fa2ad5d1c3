// Finds what became of each operation that a sidecar recorded, in the ONNX file that belongs to it: by the stamps of
// its nodes, by what its export says that it folded, and by what the recorded program says of the rest.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "annotator/validation/check.h"

namespace whence::validation {

enum class Fate : std::uint8_t {
  arrived,     // a node of its own
  fused,       // only in nodes that stand for several operations: Conv with its BatchNorm, a shared helper
  folded,      // computed into a constant, since no input decides it
  eliminated,  // recorded, without a trace; Elimination says why
  unknown,     // nodes that do not say what they stand for may be it
};
inline constexpr std::size_t fate_count = 5;
std::string_view name_of(Fate fate);  // "arrived"

enum class Elimination : std::uint8_t {
  none,
  identity,  // computes nothing in evaluation: dropout, contiguous, a cast to the same dtype
  unused,    // nothing needs its result
  number,    // a size or number that needs no node, fixed or taken from a shape elsewhere
  absorbed,  // computes something that the nodes around it express without it: a view between two reshapes
};
std::string_view name_of(Elimination reason);  // "identity"; empty for none
std::string_view text_of(Elimination reason);  // for people

struct OperationFate {
  const Node* operation = nullptr;
  Fate fate = Fate::unknown;
  Elimination reason = Elimination::none;
};

// Recorded operations that went into constants: by running PyTorch while recording, and, of a file that belongs to the
// sidecar, while exporting. context.program must be there.
std::set<std::int32_t> folded_operations(const CheckContext& context);

// By index of the recorded operation. context.recorded must be there.
std::vector<OperationFate> operation_fates(const CheckContext& context);

}  // namespace whence::validation
