// TensorRT, as trtexec writes it:
//   --exportProfile=profile.json     [{"count": 1500}, {"name": "a + b", "timeMs": 24.1, "averageMs": 0.016, ...}, ...]
//   --exportLayerInfo=layers.json    {"Layers": ["a + b", ...]}, or with --profilingVerbosity=detailed
//                                    {"Layers": [{"Name": "a + b", "LayerType": "...", "Metadata": "..."}, ...]}
// The second says which ONNX nodes each layer holds, where the first has but the layers' names (tensorrt_names.h).
// Warm-up is trtexec's own affair (--warmUp): its profile has none. TensorRT cannot run here: tests read files that
// were written by hand after what its source prints.
#pragma once

#include "annotator/profile/profile_reader.h"

namespace whence::profile {

extern const ProfileReader tensorrt_profile_reader, tensorrt_layers_reader;

}  // namespace whence::profile
