// Operators of runtimes that do the work of two neighbours.
#pragma once

#include <string_view>

#include "annotator/match/structure.h"
#include "annotator/origin/confidence.h"

namespace whence::match {

// Skip...Normalization: adds, then normalizes.
inline bool is_skip_norm(std::string_view op_type) { return op_type.starts_with("Skip"); }

// Returns true for an operator that absorbed a sum before a norm, or an activation after a product.
inline bool absorbs_neighbour(const StructureNode<Side::foreign>& node) {
  const bool activates = node.states_activation || node.op_type.starts_with("Fused") ||
                         node.op_type.starts_with("Bias") || node.op_type.ends_with("Gelu");
  return node.inputs.size() > 1 && origin::is_of_runtime(node.domain) && (is_skip_norm(node.op_type) || activates);
}

}  // namespace whence::match
