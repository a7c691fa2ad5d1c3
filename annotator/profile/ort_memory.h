// Reads the memory of each node, which ONNX Runtime writes with the session option
// session.collect_node_memory_stats_to_file:
//
//   #name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations
//   /encoder/layer.0/attention/MatMul_6589777626925737867,1152,4096,1024,0
//
// The number after a name is a hash of the node. With memory patterns (SessionOptions.enable_mem_pattern), outputs are
// allocated together, and total_dynamic_sizes is 0.
#pragma once

#include "annotator/profile/profile_reader.h"

namespace whence::profile {

// A layer's amount is its memory without inputs: initializers, outputs and temporary memory.
extern const ProfileReader ort_memory_reader;

}  // namespace whence::profile
