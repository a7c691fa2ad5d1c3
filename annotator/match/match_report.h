// Makes the report of a match: answers for the nodes of the file from those for the nodes of its structure.
#pragma once

#include "annotator/match/evidence.h"
#include "annotator/match/file_structure.h"
#include "annotator/match/match.h"
#include "annotator/match/reference.h"

namespace whence::match {

// Without the fit. `evidence`: released on the way, since its text takes as much memory.
MatchReport make_report(const FileStructure<Side::foreign>& foreign, const Reference& reference, EvidenceTable evidence,
                        const IndexedVector<ForeignNode, NodeMatch>& matches);

}  // namespace whence::match
