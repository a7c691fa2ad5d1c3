// Parses JSON in which no object has a key twice. Readers disagree on which of two equal keys counts, so whoever reads
// a text with both may see something else than whoever checked it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "whence/diagnostics.h"

namespace whence::derivation {

// Returns a discarded value for a text that is not JSON. Throws Error(corrupt_file) with `place` for a key that is
// written twice.
nlohmann::ordered_json parse_distinct(std::string_view text, const Place& place);

}  // namespace whence::derivation
