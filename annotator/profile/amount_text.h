// Amounts of a profile as text: per run, in the displayed unit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "annotator/profile/runtime_profile.h"

namespace whence::profile {

// Returns "ms", "cycles", "bytes" or "nodes".
std::string_view shown_unit(Unit unit);

// Returns the amount per run: "1.234" for milliseconds, "1,234" for cycles or bytes.
std::string amount_text(std::int64_t amount, std::int64_t runs, Unit unit);

}  // namespace whence::profile
