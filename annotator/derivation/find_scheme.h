// Finds the scheme by which a tool quantised real numbers: the one that gives the file's scales, zero points and
// integers again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
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
// places, and integers by one where the number is halfway between both. `theirs`, `integers`: the stored scales and
// zero points, and the stored integers in the order of the numbers. Returns nullopt if no scheme fits.
std::optional<Scheme> find_near_scheme(const Numbers& numbers, const QuantisedWeight& weight, const StoredParts& stored,
                                       const GroupScales& theirs, std::span<const std::int32_t> integers);

// Returns the first scheme that gives the scales and zero points, byte for byte.
std::optional<Scheme> find_scales(const Numbers& numbers, const QuantisedWeight& weight, const StoredParts& stored);

SchemeFinding find_scheme(const Numbers& numbers, const QuantisedWeight& weight, const StoredParts& stored);

}  // namespace whence::derivation
