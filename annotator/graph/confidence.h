// Confidence: how sure whence is of a node's module. Written under `pkg.whence.confidence`, decided by match and
// export.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace whence {

// Strongest first. Reports show the five side by side; the first three count as covered.
enum class Confidence : std::uint8_t { exact, matched, inferred, ancestor, unattributed };
inline constexpr std::size_t confidence_count = 5;

std::string_view name_of(Confidence confidence);
std::optional<Confidence> parse_confidence(std::string_view word);

}  // namespace whence
