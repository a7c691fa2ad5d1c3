// Rejects files that are obviously not TorchScript archives, before LibTorch is needed.
#pragma once

#include "schema/files/files.h"

namespace whence {

// Throws Error: wrong_kind (an ONNX file, a file of torch.save, not a zip file), truncated_file. The archive's reader
// reports all other problems.
void reject_other_than_torchscript(const MappedFile& file);

}  // namespace whence
