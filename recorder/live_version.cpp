#include "recorder/live_version.h"

#include <cstdint>

#include <dlfcn.h>

#include "schema/result.h"

namespace whence {

// LibTorch's C interface, which keeps its form: the version's parts from the highest byte on.
std::string running_torch_version() {
  using AbiVersion = std::uint64_t (*)();
  const auto version = reinterpret_cast<AbiVersion>(dlsym(RTLD_DEFAULT, "aoti_torch_abi_version"));
  if (version == nullptr) return "";
  const std::uint64_t packed = version();
  return std::to_string(packed >> 56 & 0xff) + "." + std::to_string(packed >> 48 & 0xff) + "." +
         std::to_string(packed >> 40 & 0xff);
}

void refuse_other_torch(const std::string& built_for) {
  const std::string running = running_torch_version();
  if (running.empty() || running == built_for) return;
  throw Error(Code::needs_libtorch,
              "the plugin was built for PyTorch " + built_for + ", and this process runs PyTorch " + running,
              "pip install torch==" + built_for + ", or build whence with TORCH_DIR set to the running torch package",
              {.stage = "load recorder"});
}

}  // namespace whence
