// Shared by all passes: the program that they rewrite and the lists that they report to.
//
// A pass works in place on a private copy of the program. Node indices (Origin::op) are never renumbered, because they
// link back to the recording. Nodes that a pass adds carry the origin of the operation that they replace.
#pragma once

#include <set>
#include <string>

#include "annotator/program/failure.h"
#include "annotator/program/program_edit.h"
#include "annotator/program/program_facts.h"
#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence::lower {

struct Composites;

struct Lowering {
  Program& program;
  Failures& failures;                    // lowering continues after a failure, so that a run shows all
  Diagnostics& notes;                    // notes for users on the lowered program
  std::set<std::string> untouched = {};  // operators that are not rewritten, for named_in()
  bool fold = true;                      // known tensors become constants
  Composites* composites = nullptr;      // operators to decompose, if any
};

}  // namespace whence::lower
