// The stamp that export writes on each node under `pkg.whence.op`: "17" (own), "fused:17,18", "shared:3,9", or
// "shared:" if no operation produced the node (an input that the model returns). Numbers are indices of recorded
// operations, so a stamp needs its sidecar.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "annotator/origin/node_origin.h"

namespace whence::origin {

std::string to_stamp(const NodeOrigin& origin);

// Returns nullopt if the text is not a stamp. The caller must check that the operations exist.
std::optional<NodeOrigin> parse_stamp(std::string_view text);

// Converts ascending, distinct numbers to "0-5,9" and back. Returns nullopt for other texts, and for more than a
// million numbers.
std::string to_ranges(const std::vector<std::int32_t>& operations);
std::optional<std::vector<std::int32_t>> parse_ranges(std::string_view text);

}  // namespace whence::origin
