#include "annotator/placement/device.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "schema/nearest_names.h"
#include "schema/parse_number.h"
#include "whence/diagnostics.h"

namespace whence::placement {

namespace {

constexpr std::array device_words = {"cpu", "gpu", "cuda", "dml", "npu", "fpga", "accelerator"};
constexpr std::array gpu_vendors = {"nvidia", "amd", "intel"};
constexpr std::string_view provider_ending = "ExecutionProvider";

struct DeviceProviders {
  std::string_view device;
  std::vector<std::string_view> providers;
};

// Source: MatchEpDevice() of onnxruntime/core/framework/layering_annotations.cc, 1.32, plus the device of each
// provider. OpenVINO's provider serves several devices.
const std::vector<DeviceProviders>& providers_by_device() {
  static const std::vector<DeviceProviders> table = {
      {"cpu",
       {"CPUExecutionProvider", "DnnlExecutionProvider", "XnnpackExecutionProvider", "ACLExecutionProvider",
        "OpenVINOExecutionProvider"}},
      {"cuda", {"CUDAExecutionProvider"}},
      {"gpu:nvidia", {"CUDAExecutionProvider", "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"}},
      {"gpu:amd", {"ROCMExecutionProvider", "MIGraphXExecutionProvider"}},
      {"gpu:intel", {"OpenVINOExecutionProvider"}},
      {"gpu",
       {"CUDAExecutionProvider", "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider", "ROCMExecutionProvider",
        "MIGraphXExecutionProvider", "DmlExecutionProvider", "WebGpuExecutionProvider", "OpenVINOExecutionProvider"}},
      {"dml", {"DmlExecutionProvider"}},
      {"npu", {"QNNExecutionProvider", "VitisAIExecutionProvider", "OpenVINOExecutionProvider"}},
  };
  return table;
}

}  // namespace

void require_device(const std::string& device) {
  const auto known = [&](const auto& words, std::string_view word) {
    return std::ranges::find(words, word) != words.end();
  };
  if (known(device_words, device)) return;
  // Excludes characters with a meaning in ONNX Runtime's setting.
  const bool plain = device.find_first_of("();,= \t\n") == std::string::npos;
  if (plain && device.ends_with(provider_ending) && device.size() > provider_ending.size()) return;
  if (device.starts_with("gpu:") && (known(gpu_vendors, device.substr(4)) || is_digits(device.substr(4)))) return;
  const auto near = nearest(device, {device_words.begin(), device_words.end()});
  throw Error(
      Code::usage, "'" + device + "' is not a device of ONNX Runtime",
      (near ? "did you mean " + *near + "? " : std::string()) +
          "choose from cpu, gpu, cuda, dml, npu, fpga, accelerator, gpu:nvidia, gpu:0 and full names of providers",
      {.stage = "place"});
}

bool serves(std::string_view provider, std::string_view device) {
  if (device == no_device || device == provider) return true;
  if (device == "accelerator" || device == "fpga") return provider != "CPUExecutionProvider";
  const std::string_view kind = device.starts_with("gpu:") && is_digits(device.substr(4)) ? "gpu" : device;
  const auto row = std::ranges::find(providers_by_device(), kind, &DeviceProviders::device);
  return row != providers_by_device().end() && std::ranges::find(row->providers, provider) != row->providers.end();
}

}  // namespace whence::placement
