// Nodes whose name and weights state two modules with the same last name, in a file without a reference. PyTorch's
// older exporter leaves containers, and modules whose forward is not called, out of names. If a module is passed to
// another one, the name contains the caller's path.
//
//   /l/Gemm           reads h.l.weight      h.l, if l.weight is in the file as well
//   /user/bank.0/Gemm reads bank.0.weight   bank.0
//   /d.x/y/Gemm       reads d.x/y.weight    d.x/y: a key may have a slash
#pragma once

#include "annotator/match/evidence.h"
#include "annotator/match/reference.h"
#include "annotator/match/scope_in_name.h"

namespace whence::match {

struct SettledName {
  ScopeIndex scope;  // none: nothing contradicts the name
  origin::Confidence max_confidence = origin::Confidence::inferred;
};

// Returns for each node the module that its name means. If the weights of nodes with one name belong to two modules, or
// if tied weights could be the reason, returns the module around both, as `ancestor`.
IndexedVector<ForeignNode, SettledName> settle_contradicted_names(const Reference& reference, const ScopeReader& reader,
                                                                  const EvidenceTable& evidence);

}  // namespace whence::match
