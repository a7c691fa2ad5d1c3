// Reads the profile that ONNX Runtime writes with SessionOptions.enable_profiling, a JSON array of events in Chrome's
// trace format. Events of category "Node" state each operator's time, provider and memory.
//
// The first of several runs is a warm-up, in which ONNX Runtime allocates memory and packs weights.
#pragma once

#include "annotator/profile/profile_reader.h"

namespace whence::profile {

// Ends the names of operators' events.
inline constexpr std::string_view kernel_suffix = "_kernel_time";

// Returns a time of an event. Throws Error(corrupt_file) if it has none.
std::int64_t ort_time_at(const JsonValue& event, std::string_view key, const Place& place);

// Errors: corrupt_file for events without times; wrong_kind if the model did not run.
extern const ProfileReader ort_profile_reader;

}  // namespace whence::profile
