#include "annotator/origin/counts.h"

#include <numeric>

namespace whence::origin {

std::int64_t Counts::total() const { return std::accumulate(by.begin(), by.end(), std::int64_t{0}); }

std::int64_t Counts::covered() const {
  return (*this)[Confidence::exact] + (*this)[Confidence::matched] + (*this)[Confidence::inferred];
}

double Counts::share(std::int64_t part) const {
  return total() == 0 ? 1 : static_cast<double>(part) / static_cast<double>(total());
}

}  // namespace whence::origin
