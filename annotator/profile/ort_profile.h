// OrtProfile: the profile that ONNX Runtime writes with SessionOptions.enable_profiling, a JSON array of events in
// Chrome's trace format. Events of category "Node" say how long each operator ran.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/result.h"

namespace whence::profile {

// One operator of the graph that ran: all its runs together.
struct ProfiledOperator {
  std::string name;      // as ONNX Runtime calls the node
  std::string op_type;   // after its fusions
  std::string provider;  // "CPUExecutionProvider"
  std::int64_t count = 0;
  std::int64_t microseconds = 0;  // without what bodies of If, Loop and Scan took: those have entries of their own
};

struct OrtProfile {
  std::vector<ProfiledOperator> operators;  // in the order in which they first ran
  std::int64_t runs = 0;                    // how often the model ran
  std::int64_t run_microseconds = 0;        // duration of all runs, time between operators included
};

// Errors: missing_file, empty_file; truncated_file and corrupt_file for what is not JSON; wrong_kind for JSON that is
// not a profile of ONNX Runtime, or one without a run.
Result<OrtProfile> read_ort_profile(const std::string& path);

}  // namespace whence::profile
