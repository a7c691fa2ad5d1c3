// Structure: integers that only say which elements an operator reads or what sizes it gives, and whose numbers never
// become numbers of the model: sizes, axes, positions.
#pragma once

#include "annotator/derivation/file_tensors.h"

namespace whence::derivation {

// Returns true if each reader of the tensor uses it so. False for a tensor without readers.
bool is_structure(const FileTensor& tensor);

}  // namespace whence::derivation
