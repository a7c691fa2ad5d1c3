// Norm pairs: convolutions of a recorded program whose result a norm with fixed statistics reads. Tools fold such a
// norm into the convolution's weight.
#pragma once

#include <string>
#include <vector>

#include "schema/program.h"

namespace whence::derivation {

struct NormPair {
  std::string weight;                        // of the convolution, [outputs, ...]
  std::string scale, shift, mean, variance;  // of the norm; scale and shift are empty for one without them
  double epsilon = 0;
};

// Returns the pairs, by the names of their parameters.
std::vector<NormPair> norm_pairs(const Program& program);

}  // namespace whence::derivation
