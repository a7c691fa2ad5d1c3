// Operators that an execution provider made from several nodes, and the parts of them that the provider reports.
//
// A provider that compiles gives ONNX Runtime one operator with a generated name for many nodes:
//   cat "Node", name "OpenVINOExecutionProvider_OpenVINOExecutionProvider_4994_0_0_kernel_time"
// Plugin providers (ONNX Runtime 1.25 and later) may add an event for each part, which names that operator:
//   cat "Kernel", name "OV::/query/MatMul", args {"parent_ort_event_name": "..._0_0_kernel_time", "ep": "..."}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "annotator/profile/ort_kernel.h"
#include "annotator/profile/profile_input.h"

namespace whence::profile {

// An event of a provider.
struct ProviderEvent {
  std::string parent;  // name of the operator of which it is a part
  std::string name, op_type;
  std::int64_t start = 0, duration = 0;
};

// Returns true if the event is of a provider and names its operator.
bool is_provider_event(const JsonValue& event);
ProviderEvent read_provider_event(const JsonValue& event, AmountSum& durations, const Place& place);

// Returns true if a provider made the operator from several nodes.
bool is_compiled(const OrtKernel& kernel);

// Adds the parts as kernels, and subtracts their time from the operators. The time of the operator, which ONNX Runtime
// measures, is exact. Parts that together take longer are scaled to it: some providers report averages over all runs so
// far, such as OpenVINO's. Returns true if any were scaled. Cost: n log n.
bool add_parts(std::vector<OrtKernel>& kernels, std::vector<ProviderEvent> events);

}  // namespace whence::profile
