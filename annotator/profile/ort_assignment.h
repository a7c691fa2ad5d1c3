// Reads the execution provider of each node. ONNX Runtime returns it through its API
// (session.record_ep_graph_assignment_info, then get_provider_graph_assignment_info()) and writes no file;
// docs/profile.md has the code that writes this one:
//
//   [{"provider": "CPUExecutionProvider", "nodes": [{"name": "/head/Gemm", "op_type": "Gemm"}]}, ...]
#pragma once

#include "annotator/profile/profile_reader.h"

namespace whence::profile {

// Counts nodes: each layer has the amount 1. Next to a profile of the same session, lists the nodes of the operators
// that a provider made from several nodes.
extern const ProfileReader ort_assignment_reader;

}  // namespace whence::profile
