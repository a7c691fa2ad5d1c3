// Modules that have no node in the file, with the reason: the question behind "where did my dropout go".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "annotator/validation/check.h"

namespace whence::validation {

enum class Silence : std::uint8_t {
  never_called,      // no call of it was recorded
  computes_nothing,  // torch.nn.Identity, or a container without content: nothing that could become a node
  constant,          // its results are known without the inputs: they lie in the file as initializers
  eliminated,        // its operations were recorded, and none is left: dropout in evaluation, a view without effect
  unknown,           // its operations were recorded, and the nodes of the file do not say what they stand for
  folded,            // its operations are computed by nodes of an enclosing module that serve several at once
};
std::string_view name_of(Silence silence);  // "never_called"
std::string_view text_of(Silence silence);  // for people

struct SilentModule {
  std::string path, type;
  Silence silence = Silence::never_called;
  std::map<std::string, std::int64_t> operations;  // recorded at and below it, by type
};

// From the sidecar's module table, in its order; modules below a silent one are listed too. Empty without a sidecar.
std::vector<SilentModule> silent_modules(const CheckContext& context);

}  // namespace whence::validation
