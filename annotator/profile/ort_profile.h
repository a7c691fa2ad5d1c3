// Reads the profile that ONNX Runtime writes with SessionOptions.enable_profiling, a JSON array of events in Chrome's
// trace format. Events of category "Node" state each operator's time, provider and memory.
//
// The first of several runs is a warm-up, in which ONNX Runtime allocates memory and packs weights.
#pragma once

#include "annotator/profile/profile_reader.h"

namespace whence::profile {

// Errors: corrupt_file for events without times; wrong_kind if the model did not run.
extern const ProfileReader ort_profile_reader;

}  // namespace whence::profile
