// Tells a file that is no TorchScript archive at sight: before LibTorch is loaded, or missed.
#pragma once

#include "schema/files/files.h"

namespace whence {

// Throws Error: wrong_kind (an ONNX file, what torch.save writes, no zip at all), truncated_file. What else is wrong
// with an archive, its reader finds.
void reject_other_than_torchscript(const MappedFile& file);

}  // namespace whence
