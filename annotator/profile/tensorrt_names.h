// The ONNX nodes of a TensorRT layer, from its name and its metadata.
//
// Names, as trtexec prints them (TensorRT 8 to 10):
//   a + b                                      fused one after the other
//   a || b                                     fused side by side
//   PWN(a, PWN(b))                             pointwise operators as one kernel
//   {ForeignNode[first...last]}                a region of unnamed nodes that another compiler took
//   Reformatting CopyNode for Input Tensor 0 to X, X copy     data moved for X
//   a_myl109_2                                 a kernel of such a region, with underscores for dots in a's name
//   __myl_MulMaxSub_myl109_3, (Unnamed Layer* 14) [Shuffle]   names by TensorRT
// Metadata (--profilingVerbosity=detailed): "[ONNX Layer: a | Local Function: f]" for each node, joined by 0x1f or
// 0x1e. TensorRT's parser replaces the middle of texts over 4,000 characters with " ... ".
#pragma once

#include <string_view>

#include "annotator/profile/runtime_profile.h"

namespace whence::profile {

HeldNodes nodes_of_tensorrt_name(std::string_view name);
HeldNodes nodes_of_tensorrt_metadata(std::string_view metadata);

}  // namespace whence::profile
