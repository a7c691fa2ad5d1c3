// Lists the passes in order; only this file defines the order.
#include "annotator/lower/pipeline.h"

#include "annotator/lower/pass.h"

namespace whence::lower {

Program lower(const Program& program, Failures& failures, Diagnostics& notes, const std::set<std::string>& untouched,
              bool fold, Composites* composites) {
  Program lowered = program;
  Lowering lowering{lowered, failures, notes, untouched, fold, composites};
  settle_branches(lowering);          // first: writes inside a branch that is always taken become straight-line code
  decompose_composites(lowering);     // before writes become values: the steps may write, and return views of arguments
  expand_filled_diagonals(lowering);  // adds writes through views
  functionalize(lowering);            // before values are replaced: it needs the tensor that each write targets
  views_for_copies(lowering);         // not earlier: a write to the source does not change a copy
  pad_packed_sequences(lowering);     // before no-ops are dropped: a slice that it adds may be one
  decompose(lowering);                // no decomposed kernel writes; the steps may be no-ops
  complex_as_pairs(lowering);         // on functional operators; leaves no-ops where only a dtype changed
  drop_no_ops(lowering);              // only now does a detach have no effect: nothing writes through it
  drop_dead_code(lowering);           // before constants: an unused node must not keep tensors alive
  use_constants(lowering);            // after functionalize, which gives written tensors a new value
  join_branches(lowering);            // on pure operators: merged nodes move past the nodes in between
  drop_dead_code(lowering);           // last: removes nodes that the other passes left unused
  return lowered;
}

}  // namespace whence::lower
