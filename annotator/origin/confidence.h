// Confidence: how certain the module of a node is. Match and export set it; it is stored under `pkg.whence.confidence`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "schema/program.h"

namespace whence::origin {

// Strongest first. The first three count as covered.
enum class Confidence : std::uint8_t { exact, matched, inferred, ancestor, unattributed };
inline constexpr std::size_t confidence_count = 5;

// The confidence of a module on a node without a confidence: it may be any module around the right one. annotate always
// writes a confidence.
inline constexpr Confidence unstated_confidence = Confidence::ancestor;

// Returns true for domains of ONNX Runtime's operators. whence never exports them: a tool made the node, often from
// several nodes, and copied the metadata of one.
inline bool is_of_runtime(std::string_view domain) { return domain.starts_with("com.microsoft"); }

// Returns the confidence for metadata that states `stated` but may have been copied from another node.
inline Confidence limited_by(std::string_view domain, Confidence stated) {
  return is_of_runtime(domain) && stated < Confidence::inferred ? Confidence::inferred : stated;
}

std::string_view name_of(Confidence confidence);
std::optional<Confidence> parse_confidence(std::string_view word);

// Returns the confidence for a scope that was observed or inferred. Recordings of C++ modules infer some scopes.
Confidence confidence_of(ScopeBasis basis);

}  // namespace whence::origin
