// Finds what became of each parameter and buffer that a sidecar recorded: which arrived as an initializer, by what it
// was recognised, and why the others did not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/validation/operation_fates.h"

namespace whence::validation {

enum class Arrival : std::uint8_t {
  name,     // an initializer or input of its name, or of another name of the same tensor
  content,  // an initializer with its bytes: as they are, transposed, or as float16 or bfloat16
  shape,    // the one initializer left of its dtype and shape; its bytes were changed
  reader,   // the one that the nodes of its operation read in its sizes: a quantiser changed bytes, dtype and name
  fused,    // its operations are in nodes that stand for several: it went into another's bytes
  folded,   // its operations were computed into a constant
  unused,   // no operation that an output needs reads it
  missing,  // an operation reads it that is in the file or may be, and the file has nothing like it
};
inline constexpr std::size_t arrival_count = 8;
std::string_view name_of(Arrival arrival);  // "content"
std::string_view text_of(Arrival arrival);  // for people
bool arrived(Arrival arrival);              // by name, content, shape or reader

struct ParameterFate {
  const Parameter* parameter = nullptr;
  Arrival arrival = Arrival::missing;
  std::string initializer;  // its name in the file, when that is another
};

using ParameterFates = IndexedVector<ParameterId, ParameterFate>;

// Reads bytes of initializers only where a parameter is not found by name, or went into a
// constant that keeps its name. `path`: the ONNX file, for weights beside it.
ParameterFates parameter_fates(const CheckContext& context, const std::string& path,
                               const std::vector<OperationFate>& operations);

}  // namespace whence::validation
