// The execution provider of each node. ONNX Runtime tells it a program (session.record_ep_graph_assignment_info, then
// get_provider_graph_assignment_info()) and writes no file; docs/profile.md has the lines that write this one:
//
//   [{"provider": "CPUExecutionProvider", "nodes": [{"name": "/head/Gemm", "op_type": "Gemm"}]}, ...]
#pragma once

#include "annotator/profile/profile_reader.h"

namespace whence::profile {

// A layer's amount is 1: nodes are counted.
extern const ProfileReader ort_assignment_reader;

}  // namespace whence::profile
