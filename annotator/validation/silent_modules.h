// Modules that have no node in the file, with the reason. Answers questions such as "where is my dropout".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "annotator/validation/check.h"

namespace whence::validation {

enum class Silence : std::uint8_t {
  never_called,      // no call of it was recorded
  computes_nothing,  // nothing that could become a node: torch.nn.Identity, or an empty container
  constant,          // its results do not depend on the inputs; they are initializers in the file
  eliminated,        // none of its recorded operations is left: dropout in evaluation mode, a view without effect
  unknown,           // it has recorded operations, but the nodes of the file state no operations
  folded,            // its operations are in nodes of an enclosing module that serve several modules
};
std::string_view name_of(Silence silence);  // "never_called"
std::string_view text_of(Silence silence);  // for text reports

struct SilentModule {
  std::string path, type;
  Silence silence = Silence::never_called;
  std::map<std::string, std::int64_t> operations;  // recorded in it and below it, by type
};

// Returns the modules without a node in the order of the sidecar's module table, including those below another such
// module. Empty without a sidecar.
std::vector<SilentModule> silent_modules(const CheckContext& context);

}  // namespace whence::validation
