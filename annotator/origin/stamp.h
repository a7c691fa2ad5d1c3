// The stamp that export leaves on each node under `pkg.whence.op`, as text and back: "17" (own), "fused:17,18",
// "shared:3,9"; "shared:" where no operation had a part in the node (an input that the model returns). Numbers are
// indices of recorded operations, so a stamp means something only beside its sidecar.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "annotator/origin/node_origin.h"

namespace whence::origin {

std::string to_stamp(const NodeOrigin& origin);

// nullopt when the text is not a stamp. Whether the operations exist is for the caller to check.
std::optional<NodeOrigin> parse_stamp(std::string_view text);

// "0-5,9" and back: ascending, distinct. nullopt when the text is no such list, or one of more than a million.
std::string to_ranges(const std::vector<std::int32_t>& operations);
std::optional<std::vector<std::int32_t>> parse_ranges(std::string_view text);

}  // namespace whence::origin
