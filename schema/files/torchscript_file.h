// Tells a file that is no TorchScript archive at sight: before LibTorch is loaded, or missed.
#pragma once

#include <string>

namespace whence {

// Throws Error: wrong_kind (an ONNX file, what torch.save writes, no zip at all), truncated_file, and what opening a
// file throws. What else is wrong with an archive, its reader finds.
void reject_other_than_torchscript(const std::string& path);

}  // namespace whence
