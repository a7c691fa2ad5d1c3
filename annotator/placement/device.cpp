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

struct GpuVendor {
  std::string_view word;
  std::int64_t id;  // of PCI
};
constexpr std::array<GpuVendor, 3> vendor_ids = {{{"nvidia", 0x10de}, {"amd", 0x1002}, {"intel", 0x8086}}};

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return lower;
}

bool is_of_vendor(const ProviderDevice& device, std::string_view vendor) {
  const auto known = std::ranges::find(vendor_ids, vendor, &GpuVendor::word);
  return lower_case(device.vendor) == vendor || (known != vendor_ids.end() && known->id == device.vendor_id);
}

// Compares by the provider's devices, as EpLayeringMatcher::Match() does.
bool has_device(const std::vector<ProviderDevice>& devices, std::string_view device) {
  return std::ranges::any_of(devices, [&](const ProviderDevice& each) {
    if (device == "accelerator" || device == "fpga") return each.type != "CPU";
    if (!device.starts_with("gpu:")) return lower_case(each.type) == device;
    const std::string_view specifier = device.substr(4);
    return each.type == "GPU" && (is_digits(specifier) || is_of_vendor(each, specifier));
  });
}

bool is_known_provider(std::string_view provider) {
  return std::ranges::any_of(providers_by_device(), [&](const DeviceProviders& row) {
    return std::ranges::find(row.providers, provider) != row.providers.end();
  });
}

bool is_hardware(std::string_view device) {
  return device == "cpu" || device == "gpu" || device == "npu" || device == "fpga" || device == "accelerator" ||
         device.starts_with("gpu:");
}

}  // namespace

std::string device_named(const std::string& text) {
  constexpr std::string_view provider_prefix = "provider:";
  const auto known = [&](const auto& words, std::string_view word) {
    return std::ranges::find(words, word) != words.end();
  };
  if (known(device_words, text)) return text;
  // Excludes characters with a meaning in ONNX Runtime's setting.
  const bool plain = text.find_first_of("();,= \t\n") == std::string::npos;
  if (plain && text.starts_with(provider_prefix) && text.size() > provider_prefix.size()) {
    return text.substr(provider_prefix.size());
  }
  if (plain && text.find(provider_ending) != std::string::npos && text.size() > provider_ending.size()) return text;
  if (text.starts_with("gpu:") && (known(gpu_vendors, text.substr(4)) || is_digits(text.substr(4)))) return text;
  const auto near = nearest(text, {device_words.begin(), device_words.end()});
  throw Error(
      Code::usage, "'" + text + "' is not a device of ONNX Runtime",
      (near ? "did you mean " + *near + "? " : std::string()) +
          "choose from cpu, gpu, cuda, dml, npu, fpga, accelerator, gpu:nvidia, gpu:0, full names of providers, "
          "and provider:NAME for a provider of any name",
      {.stage = "place"});
}

Served serves(std::string_view provider, const std::vector<ProviderDevice>& devices, std::string_view device) {
  const auto answer = [](bool yes) { return yes ? Served::yes : Served::no; };
  if (device == no_device || device == provider) return Served::yes;
  if (!devices.empty() && is_hardware(device)) {
    return answer(has_device(devices, device) || (device == "cpu" && provider == "CPUExecutionProvider"));
  }
  if (device == "accelerator" || device == "fpga") return answer(provider != "CPUExecutionProvider");
  if (is_hardware(device) && !is_known_provider(provider)) return Served::unknown;
  const std::string_view kind = device.starts_with("gpu:") && is_digits(device.substr(4)) ? "gpu" : device;
  const auto row = std::ranges::find(providers_by_device(), kind, &DeviceProviders::device);
  return answer(row != providers_by_device().end() &&
                std::ranges::find(row->providers, provider) != row->providers.end());
}

}  // namespace whence::placement
