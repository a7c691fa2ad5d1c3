// The passes share the program that they rewrite and the place where they report.
//
// A pass works in place on a private copy of the program. Node indices (Origin::op) are never renumbered: they are the
// link back to the record. What a pass adds carries the origin of the operation it stands for.
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
  Failures& failures;                    // lowering goes on after one, so that a run shows all
  Diagnostics& notes;                    // notes for users on a program that was lowered
  std::set<std::string> untouched = {};  // operators that stay as they are, for named_in()
  bool fold = true;                      // tensors that are known become constants
  Composites* composites = nullptr;      // operators to open, if any
};

}  // namespace whence::lower
