// Growth: finds the correspondence of a foreign file and a reference.
//
// It grows outward from seeds (graph inputs and outputs, evidence of names and weights), one pair of nodes at a time,
// the best supported first. A pair is accepted if it has support (values that correspond, evidence) and clearly more
// support than any rival on either side; ties wait until their neighbours have partners. If the two sides express a
// computation differently, growth steps over nodes that only one side has.
//
// Source of the idea: percolation graph matching (Yartseva, Grossglauser, 2013; Kazemi et al., "Growing a graph
// matching from a handful of seeds", 2015). Cost: n log n; values with very many readers propose no pairs by
// themselves.
#pragma once

#include <vector>

#include "annotator/match/correspondence.h"
#include "annotator/match/evidence.h"
#include "annotator/match/known_values.h"
#include "annotator/match/same_names.h"

namespace whence::match {

// `foreign` and `reference` outlive the result.
Correspondence grow_correspondence(const ForeignStructure& foreign, const Reference& reference,
                                   const EvidenceTable& evidence, const std::vector<KnownValue>& values,
                                   const SameNames& same_names);

}  // namespace whence::match
