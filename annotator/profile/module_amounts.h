// The sums of a ModuleProfile: by module, by call, and with what overlaps counted once.
#pragma once

#include "annotator/profile/module_profile.h"

namespace whence::profile {

// Fills amount, unattributed, wall, amounts and calls from the layers. Cost: layers and events times the tree's depth.
void add_amounts(ModuleProfile& profile);

}  // namespace whence::profile
