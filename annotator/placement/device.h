// Devices as in ONNX Runtime's layer assignment, and the execution providers that serve them. ONNX Runtime accepts any
// word, and silently ignores a rule with an unknown device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace whence::placement {

inline constexpr std::string_view no_device = "none";  // left to ONNX Runtime

// Returns the device of a rule: cpu, gpu, cuda, dml, npu, fpga, accelerator, "gpu:" with a vendor or a number, the full
// name of an execution provider ("QNNExecutionProvider"), or NAME for "provider:NAME", because plugin providers may
// have any name. Throws Error(usage) with the nearest word for others.
std::string device_named(const std::string& text);

// A device of an execution provider, as ONNX Runtime's get_ep_devices() states it.
struct ProviderDevice {
  std::string type;            // "CPU", "GPU" or "NPU"
  std::string vendor;          // "Intel"
  std::int64_t vendor_id = 0;  // of PCI
};

enum class Served : std::uint8_t { no, yes, unknown };

// Returns whether ONNX Runtime may assign nodes for `device` to the execution provider; unknown for a provider that is
// not known by name and has no devices in the list.
Served serves(std::string_view provider, const std::vector<ProviderDevice>& devices, std::string_view device);

}  // namespace whence::placement
