// The sums of a ModuleProfile: by module, by call, and with overlapping time counted once.
#pragma once

#include "annotator/profile/module_profile.h"

namespace whence::profile {

// Computes amount, unattributed, wall, amounts and calls from the layers. Cost: layers and events times tree depth.
void add_amounts(ModuleProfile& profile);

}  // namespace whence::profile
