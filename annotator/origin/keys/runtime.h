// Metadata keys that runtimes read.
#pragma once

#include <string_view>

namespace whence::origin::keys {

// ONNX Runtime's key on nodes, which session.layer_assignment_settings maps to a device. `whence place` writes the
// device.
inline constexpr std::string_view layer_annotation = "layer_ann";
// On the model, if `whence place` wrote these entries: the settings for them, "gpu(=gpu); cpu(=cpu)".
inline constexpr std::string_view placed = "pkg.whence.placed";

}  // namespace whence::origin::keys
