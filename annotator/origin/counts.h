// Counts: numbers of nodes by confidence, used by annotate, validate and the reports.
#pragma once

#include <array>
#include <cstdint>

#include "annotator/origin/confidence.h"

namespace whence::origin {

struct Counts {
  std::array<std::int64_t, confidence_count> by{};  // indexed by Confidence

  std::int64_t operator[](Confidence confidence) const { return by[static_cast<std::size_t>(confidence)]; }
  void add(Confidence confidence) { ++by[static_cast<std::size_t>(confidence)]; }
  std::int64_t total() const;
  std::int64_t covered() const;           // exact, matched and inferred
  double share(std::int64_t part) const;  // share of the total, 0 to 1; 1 if the total is 0
};

}  // namespace whence::origin
