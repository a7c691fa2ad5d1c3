// Devices as ONNX Runtime's layer assignment names them, and the execution providers that serve each. ONNX Runtime
// takes any word there, and ignores a rule whose word it does not know.
#pragma once

#include <string>
#include <string_view>

namespace whence::placement {

inline constexpr std::string_view no_device = "none";  // left to ONNX Runtime

// cpu, gpu, cuda, dml, npu, fpga, accelerator, "gpu:" with a vendor or a number, or an execution provider by its full
// name. Throws Error(usage), with the word that was meant.
void require_device(const std::string& device);

// True when ONNX Runtime may put nodes for `device` on the execution provider.
bool serves(std::string_view provider, std::string_view device);

}  // namespace whence::placement
