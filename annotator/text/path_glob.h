// Globs over qualified names, by whole segments: `encoder.layer.*.attention` matches one segment at the star,
// `**` matches any number of segments, none included. Within a segment `*` and `?` match characters, and `[0-3]`,
// `[!a-c]` one of a set. The empty pattern matches the root alone; `layer` does not match `layers`, nor
// `encoder.layer`.
#pragma once

#include <string_view>
#include <vector>

namespace whence::text {

// Returns {"layer", "0"} of "layer.0", nothing of the root. The parts are views into `path`.
std::vector<std::string_view> path_segments(std::string_view path);

bool matches_path(std::string_view pattern, std::string_view path);

}  // namespace whence::text
