// The memory of each node, as ONNX Runtime writes it with the session's entry
// session.collect_node_memory_stats_to_file:
//
//   #name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations
//   /encoder/layer.0/attention/MatMul_6589777626925737867,1152,4096,1024,0
//
// The number behind a name is a hash of the node. With memory patterns (SessionOptions.enable_mem_pattern), outputs are
// planned together, and total_dynamic_sizes is 0.
#pragma once

#include "annotator/profile/profile_reader.h"

namespace whence::profile {

// A layer's amount is what it needs beside its inputs: initializers, outputs and temporary memory.
extern const ProfileReader ort_memory_reader;

}  // namespace whence::profile
