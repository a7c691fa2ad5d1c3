// Names alone: nodes whose name says one module and whose weights say another of the same name. PyTorch's older
// exporter leaves containers, and modules whose forward is not called, out of names; and names are the callers' where a
// module is handed to another.
//
//   /l/Gemm           reads h.l.weight      h.l, where l.weight is in the file too
//   /user/bank.0/Gemm reads bank.0.weight   bank.0
//   /d.x/y/Gemm       reads d.x/y.weight    d.x/y: a key may have a slash
#pragma once

#include "annotator/match/evidence.h"
#include "annotator/match/reference.h"
#include "annotator/match/scope_in_name.h"

namespace whence::match {

struct SettledName {
  ScopeIndex scope;  // none: nothing contradicts the name
  origin::Confidence surest = origin::Confidence::inferred;
};

// Returns for each node the module that its name means after all. Where weights say two modules under one name, or
// weights that are tied could explain it as well, that is the module around both, as `ancestor`.
IndexedVector<ForeignNode, SettledName> settle_contradicted_names(const Reference& reference, const ScopeReader& reader,
                                                                  const EvidenceTable& evidence);

}  // namespace whence::match
