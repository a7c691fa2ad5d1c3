// Determines the fate of each parameter and buffer recorded in a sidecar: whether it arrived as an initializer, how it
// was recognised, and otherwise why it is not in the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/validation/operation_fates.h"

namespace whence::validation {

enum class Arrival : std::uint8_t {
  name,     // an initializer or input with its name or one of its aliases
  content,  // an initializer with its bytes: unchanged, transposed, or as float16 or bfloat16
  shape,    // the only remaining initializer of its dtype and shape; its bytes were changed
  reader,   // the only input of its sizes to the nodes of its operation: a quantiser changed bytes, dtype and name
  fused,    // its operations are in fused nodes, so it was combined into another initializer
  folded,   // its operations were folded into a constant
  unused,   // no operation that an output needs uses it
  missing,  // used by an operation that is, or may be, in the file, but not found there
};
inline constexpr std::size_t arrival_count = 8;
std::string_view name_of(Arrival arrival);  // "content"
std::string_view text_of(Arrival arrival);  // for text reports
bool arrived(Arrival arrival);              // by name, content, shape or reader

struct ParameterFate {
  const Parameter* parameter = nullptr;
  Arrival arrival = Arrival::missing;
  std::string initializer;  // its name in the file, if that differs
};

using ParameterFates = IndexedVector<ParameterId, ParameterFate>;

// Reads the bytes of initializers only for parameters that are not found by name, or that were folded into a constant
// of the same name. `path`: the ONNX file, to find its external data.
ParameterFates parameter_fates(const CheckContext& context, const std::string& path,
                               const std::vector<OperationFate>& operations);

}  // namespace whence::validation
