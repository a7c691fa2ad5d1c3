// Devices as in ONNX Runtime's layer assignment, and the execution providers that serve them. ONNX Runtime accepts any
// word, and silently ignores a rule with an unknown device.
#pragma once

#include <string>
#include <string_view>

namespace whence::placement {

inline constexpr std::string_view no_device = "none";  // left to ONNX Runtime

// Accepts cpu, gpu, cuda, dml, npu, fpga, accelerator, "gpu:" with a vendor or a number, or the full name of an
// execution provider. Throws Error(usage) with the nearest word for others.
void require_device(const std::string& device);

// Returns true if ONNX Runtime may assign nodes for `device` to the execution provider.
bool serves(std::string_view provider, std::string_view device);

}  // namespace whence::placement
