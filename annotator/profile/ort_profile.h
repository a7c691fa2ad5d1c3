// The profile that ONNX Runtime writes with SessionOptions.enable_profiling, a JSON array of events in Chrome's trace
// format. Events of category "Node" say how long each operator ran, on which provider, and with how much memory.
//
// The first of several runs is a warm-up: ONNX Runtime allocates and packs weights in it.
#pragma once

#include "annotator/profile/profile_reader.h"

namespace whence::profile {

// Errors of reading: corrupt_file for events without times; wrong_kind when the model did not run.
extern const ProfileReader ort_profile_reader;

}  // namespace whence::profile
