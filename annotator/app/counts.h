// Converts counts of nodes to the types of the C++ API.
#pragma once

#include "annotator/origin/counts.h"
#include "whence/annotate.h"

namespace whence::app {

inline NodeCounts to_node_counts(const origin::Counts& counts) {
  using origin::Confidence;
  return {counts[Confidence::exact], counts[Confidence::matched], counts[Confidence::inferred],
          counts[Confidence::ancestor], counts[Confidence::unattributed]};
}

}  // namespace whence::app
