// Makes the report of a match: joins the answers for the nodes of a structure to answers for the nodes of the file.
#pragma once

#include "annotator/match/evidence.h"
#include "annotator/match/file_structure.h"
#include "annotator/match/match.h"
#include "annotator/match/reference.h"

namespace whence::match {

// Returns the report without the fit. Releases `evidence` while writing its text, which needs as much memory.
MatchReport make_report(const FileStructure<Side::foreign>& foreign, const Reference& reference, EvidenceTable evidence,
                        const IndexedVector<ForeignNode, NodeMatch>& matches);

}  // namespace whence::match
