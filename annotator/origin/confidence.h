// Confidence: how sure whence is of a node's module. Written under `pkg.whence.confidence`, decided by match and
// export.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "schema/program.h"

namespace whence::origin {

// Strongest first. Reports show the five side by side; the first three count as covered.
enum class Confidence : std::uint8_t { exact, matched, inferred, ancestor, unattributed };
inline constexpr std::size_t confidence_count = 5;

// The confidence of a module that is named without one: it may be any module around the right one. annotate always
// writes a confidence.
inline constexpr Confidence unstated_confidence = Confidence::ancestor;

// True for the domains of ONNX Runtime's operators, of which whence exports none: a tool made such a node, often of
// several, and copied the metadata of one.
inline bool is_of_runtime(std::string_view domain) { return domain.starts_with("com.microsoft"); }

// The confidence that a node has by metadata that may be another node's, and states `stated`.
inline Confidence limited_by(std::string_view domain, Confidence stated) {
  return is_of_runtime(domain) && stated < Confidence::inferred ? Confidence::inferred : stated;
}

std::string_view name_of(Confidence confidence);
std::optional<Confidence> parse_confidence(std::string_view word);

// C++ recordings conclude some scopes; a node that stands for such an operation is no surer than that.
Confidence confidence_of(ScopeBasis basis);

}  // namespace whence::origin
