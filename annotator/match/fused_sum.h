// Convolutions of ONNX Runtime that add a value to their result: finds this value, and the sum in the reference.
#pragma once

#include <optional>

#include "annotator/match/reference.h"
#include "annotator/match/structure.h"

namespace whence::match {

// Returns the value that a convolution of ONNX Runtime adds to its result; none for any other node.
ForeignValue added_value(const ForeignStructure& foreign, ForeignNode node);

// Returns true if the reader is a convolution of ONNX Runtime that adds the value to its result.
bool is_added(const ForeignStructure& foreign, const StructureUse<Side::foreign>& use);

struct ReferenceSum {
  ReferenceValue sum, addend;
};

// Returns, for a convolution with an added_value(), the sum that follows the reference's convolution. Returns nullopt
// for any other node, and if the reference has no sum within a few nodes.
std::optional<ReferenceSum> sum_after(const ForeignStructure& foreign, const Reference& reference, ForeignNode node,
                                      ReferenceNode partner);

}  // namespace whence::match
