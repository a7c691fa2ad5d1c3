#include "annotator/origin/confidence.h"

#include <algorithm>
#include <array>

namespace whence::origin {
namespace {

constexpr std::array<std::string_view, confidence_count> confidence_words = {"exact", "matched", "inferred", "ancestor",
                                                                             "unattributed"};

}  // namespace

std::string_view name_of(Confidence confidence) { return confidence_words[static_cast<std::size_t>(confidence)]; }

std::optional<Confidence> parse_confidence(std::string_view word) {
  const auto found = std::find(confidence_words.begin(), confidence_words.end(), word);
  if (found == confidence_words.end()) return std::nullopt;
  return static_cast<Confidence>(found - confidence_words.begin());
}

Confidence confidence_of(ScopeBasis basis) {
  switch (basis) {
    case ScopeBasis::observed:
      return Confidence::exact;
    case ScopeBasis::inferred:
      return Confidence::inferred;
    case ScopeBasis::enclosing:
      break;
  }
  return Confidence::ancestor;
}

}  // namespace whence::origin
