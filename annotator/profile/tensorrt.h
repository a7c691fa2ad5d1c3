// Reads the files that TensorRT's trtexec writes:
//   --exportProfile=profile.json     [{"count": 1500}, {"name": "a + b", "timeMs": 24.1, "averageMs": 0.016, ...}, ...]
//   --exportLayerInfo=layers.json    {"Layers": ["a + b", ...]}, or with --profilingVerbosity=detailed
//                                    {"Layers": [{"Name": "a + b", "LayerType": "...", "Metadata": "..."}, ...]}
// TensorRT 11 has "I/O Tensors" in place of "Bindings" next to "Layers", and "Format" and "DataType" in place of
// "Format/Datatype" in each layer's "Inputs" and "Outputs"; none of them is read.
// The second file lists the ONNX nodes of each layer; the first has only the layers' names (tensorrt_names.h). The
// profile has no warm-up runs, which trtexec leaves out itself (--warmUp). TensorRT does not run on our machines: tests
// read files written by hand in the format that its source code prints.
#pragma once

#include "annotator/profile/profile_reader.h"

namespace whence::profile {

extern const ProfileReader tensorrt_profile_reader, tensorrt_layers_reader;

}  // namespace whence::profile
