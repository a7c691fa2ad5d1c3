// Amounts of a profile as text: per run, in the unit that people read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "annotator/profile/runtime_profile.h"

namespace whence::profile {

// "ms", "cycles", "bytes"
std::string_view shown_unit(Unit unit);

// "1.234" milliseconds, "1,234" cycles or bytes: the amount of one of `runs`.
std::string amount_text(std::int64_t amount, std::int64_t runs, Unit unit);

}  // namespace whence::profile
