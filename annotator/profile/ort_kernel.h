// OrtKernel: one execution of an operator in ONNX Runtime's profile.
#pragma once

#include <optional>
#include <string>

#include "annotator/profile/runtime_profile.h"

namespace whence::profile {

struct OrtKernel {
  std::string name, op_type, provider;
  LayerEvent event;
  std::optional<LayerMemory> memory = {};
  std::optional<std::int64_t> session_peak = {};
  std::int64_t within = 0;    // duration of nested events
  std::string compiled = {};  // as Layer::compiled
};

}  // namespace whence::profile
