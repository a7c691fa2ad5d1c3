// Metadata keys that runtimes read.
#pragma once

#include <string_view>

namespace whence::origin::keys {

// ONNX Runtime's, on nodes: what session.layer_assignment_settings maps to a device. `whence place` writes the device.
inline constexpr std::string_view layer_annotation = "layer_ann";
// On the model: `whence place` wrote the entries above; the settings that go with them, "gpu(=gpu); cpu(=cpu)".
inline constexpr std::string_view placed = "pkg.whence.placed";

}  // namespace whence::origin::keys
