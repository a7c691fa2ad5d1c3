// Writes a profile in Chrome's trace format for Perfetto (ui.perfetto.dev) and chrome://tracing: a track for each
// thread of the runtime, with modules nested around their operators.
#pragma once

#include <string>

#include "annotator/profile/module_profile.h"

namespace whence::profile {

// If the runtime does not state start times, layers follow each other in their order, each as long as in an average
// run. Throws Error(usage) for a profile of bytes or nodes.
std::string to_trace(const ModuleProfile& profile);

}  // namespace whence::profile
