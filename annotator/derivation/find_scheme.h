// Finds the scheme by which a tool quantised real numbers: the one that gives the file's scales, zero points and
// integers again.
#pragma once

#include <optional>
#include <string_view>

#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/quantise.h"

namespace whence::derivation {

// The stored bytes of a quantised weight. `zeros` is empty if the file has none.
struct StoredParts {
  std::string_view integers, scales, zeros;
  bool has_zeros = false;
  bool half_scales = false;
};

struct SchemeFinding {
  Scheme scheme;
  bool exact_scales = false;    // scales and zero points are computed again, byte for byte
  bool exact_integers = false;  // the integers as well
};

// As find_scheme() for numbers that are known up to the rounding of single precision: scales may differ in the last
// places, and integers by one where the number is halfway between both. `theirs`: the stored scales and zero points.
// Returns nullopt if no scheme fits, and for integers of four bits.
std::optional<Scheme> find_near_scheme(const Numbers& numbers, const QuantisedWeight& weight, const StoredParts& stored,
                                       const GroupScales& theirs);

// Returns the first scheme that gives the scales and zero points, byte for byte.
std::optional<Scheme> find_scales(const Numbers& numbers, const QuantisedWeight& weight, const StoredParts& stored);

SchemeFinding find_scheme(const Numbers& numbers, const QuantisedWeight& weight, const StoredParts& stored);

}  // namespace whence::derivation
