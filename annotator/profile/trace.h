// A profile in Chrome's trace format, which Perfetto (ui.perfetto.dev) and chrome://tracing open: a track for each
// thread of the runtime, on which the modules enclose each other and their operators.
#pragma once

#include <string>

#include "annotator/profile/module_profile.h"

namespace whence::profile {

// Layers of a runtime that does not say when they ran follow each other in the order in which they did, each as long
// as in an average run. Throws Error(usage) for a profile of bytes or nodes.
std::string to_trace(const ModuleProfile& profile);

}  // namespace whence::profile
