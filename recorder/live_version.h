// Which LibTorch this process runs, and whether it is the one that the plugin was built with: structures of LibTorch's
// headers change between versions, so nothing of it may be used before this was asked.
#pragma once

#include <string>

namespace whence {

// "2.13.0"; empty when LibTorch does not say.
std::string running_torch_version();

// Throws Error(needs_libtorch), with both versions, when `built_for` is not the running one.
void refuse_other_torch(const std::string& built_for);

}  // namespace whence
