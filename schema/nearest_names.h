// The names that a mistyped one may have meant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whence {

// Up to `count` of `names`, nearest first by edit distance; those that hold `unknown_name` as a whole segment or part
// come before the rest. Linear in the number of names: made for files of a hundred thousand nodes.
std::vector<std::string> nearest_names(std::string_view unknown_name, const std::vector<std::string_view>& names,
                                       std::size_t count);

// The remedy of an error about a name that nothing has: "the nearest are a, b, c"; `otherwise` where none is.
std::string nearest_remedy(std::string_view unknown_name, const std::vector<std::string_view>& names,
                           const std::string& otherwise);

// The known word nearest to `unknown_name` by edit distance, when it is near enough to be meant.
std::optional<std::string> nearest(std::string_view unknown_name, const std::vector<std::string>& names);

}  // namespace whence
