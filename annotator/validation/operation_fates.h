// Determines the fate of each operation recorded in a sidecar in the ONNX file that belongs to it: from the stamps on
// the nodes, the export's list of folded operations, and the recorded program for all other operations.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "annotator/validation/check.h"

namespace whence::validation {

enum class Fate : std::uint8_t {
  arrived,     // has a node of its own
  fused,       // only in nodes that represent several operations: Conv with its BatchNorm, a shared helper
  folded,      // computed into a constant because it depends on no input
  eliminated,  // has no node; Elimination gives the reason
  unknown,     // may be in a node that states no operation
};
inline constexpr std::size_t fate_count = 5;
std::string_view name_of(Fate fate);  // "arrived"

enum class Elimination : std::uint8_t {
  none,
  identity,  // does nothing in evaluation mode: dropout, contiguous, a cast to the same dtype
  unused,    // no output needs its result
  number,    // a size or number without a node: fixed, or computed from a shape elsewhere
  absorbed,  // expressed by the nodes around it: a view between two reshapes
};
std::string_view name_of(Elimination reason);  // "identity"; empty for none
std::string_view text_of(Elimination reason);  // for text reports

struct OperationFate {
  const Node* operation = nullptr;
  Fate fate = Fate::unknown;
  Elimination reason = Elimination::none;
};

// Returns the recorded operations that were folded into constants: by PyTorch while recording, and, if the file belongs
// to the sidecar, by the export. Requires context.program.
std::set<std::int32_t> folded_operations(const CheckContext& context);

// Returns the fates by index of the recorded operation. Requires context.recorded.
std::vector<OperationFate> operation_fates(const CheckContext& context);

}  // namespace whence::validation
