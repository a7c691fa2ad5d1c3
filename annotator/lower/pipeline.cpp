// The passes in order. This list is the only one.
#include "annotator/lower/pipeline.h"

#include "annotator/lower/pass.h"

namespace whence::lower {

Program lower(const Program& program, Failures& failures, Diagnostics& notes, const std::set<std::string>& untouched,
              bool fold, Composites* composites) {
  Program lowered = program;
  Lowering lowering{lowered, failures, notes, untouched, fold, composites};
  settle_branches(lowering);        // first: writes inside a branch that is taken for certain become straight-line code
  open_composites(lowering);        // before writes become values: its steps may write, and return views of arguments
  open_filled_diagonals(lowering);  // it writes through views that it makes
  functionalize(lowering);          // before values are replaced: it needs to see which tensor each write goes to
  views_for_copies(lowering);       // no sooner: a copy is not written when its source is
  pad_packed_sequences(lowering);   // before no-ops go: a slice that it adds may be one
  decompose(lowering);              // no composite writes; what it makes may hold no-ops
  complex_as_pairs(lowering);       // on functional operators; leaves no-ops where a tensor only changed its dtype
  drop_no_ops(lowering);            // only now is a detach or a view without effect: nothing writes through it any more
  drop_dead_code(lowering);         // before constants: what nothing reads does not keep the tensors that it reads
  use_constants(lowering);          // after functionalize, which gives what is written a new value
  join_branches(lowering);          // on pure operators: what is joined moves past what stood between
  drop_dead_code(lowering);         // last: takes what the others left unused
  return lowered;
}

}  // namespace whence::lower
