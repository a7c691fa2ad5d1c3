// Suggests known names for a mistyped name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whence {

// Returns up to `count` of `names`, nearest first by edit distance, names that contain `unknown_name` before others.
// Linear in the number of names, for files of a hundred thousand nodes.
std::vector<std::string> nearest_names(std::string_view unknown_name, const std::vector<std::string_view>& names,
                                       std::size_t count);

// Returns the remedy for an unknown name: "the nearest are a, b, c", or `otherwise` without names.
std::string nearest_remedy(std::string_view unknown_name, const std::vector<std::string_view>& names,
                           const std::string& otherwise);

// Returns the name with the smallest edit distance to `unknown_name`; nullopt if that is more
// than a third of its length.
std::optional<std::string> nearest(std::string_view unknown_name, const std::vector<std::string>& names);

}  // namespace whence
