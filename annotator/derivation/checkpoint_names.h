// The names of a checkpoint's tensors in the recorded program. A checkpoint may be that of a larger model, of which the
// program is a part ("encoder."), or of a wrapper; of tied parameters it may hold one name only, even that of another
// part of the model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annotator/checkpoint/checkpoint.h"

namespace whence::derivation {

// Returns the prefix of the program's names in the checkpoint; "" if there is none. Of several prefixes, an encoder's
// and a decoder's with the same names, returns the preferred one, or else the one whose tensors have the recorded
// bytes.
std::string prefix_of(const std::vector<checkpoint::CheckpointTensor>& tensors, const Program& program,
                      const std::optional<std::string>& preferred);

// Removes the prefix from the names that the program has.
void remove_prefix(std::vector<checkpoint::CheckpointTensor>& tensors, const std::string& prefix,
                   const Program& program);

// Adds names of the program that the checkpoint lacks as aliases of the tensor with the recorded bytes.
void add_tied_names(std::vector<checkpoint::CheckpointTensor>& tensors, const Program& program);

}  // namespace whence::derivation
