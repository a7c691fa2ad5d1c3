// Finds the tensors that branches and loop bodies write to and did not make.
#pragma once

#include <vector>

#include "annotator/lower/loop_passages.h"
#include "annotator/lower/pass.h"

namespace whence::lower {

struct OuterWrites {
  // Values from outside that are written, themselves or through views made inside, in order of the first write.
  std::vector<ValueId> written;
  // Results that are the same tensor from before the node, whichever way was gone, and which it is:
  //   if c: y = x.add_(1) else: y = x;   loop: x = x.add_(1)
  // A tensor from outside that the node hands out; for a loop, the variable inside is that tensor too.
  struct Kept {
    std::size_t position = 0;  // among the node's outputs
    ValueId tensor = none_id;
  };
  std::vector<Kept> kept;
  // Other variables of a loop: in some iterations the body's variable is another value, one from outside or another
  // variable (h *= 2; h = out[i]; last = h).
  struct Sometimes {
    ValueId variable = none_id, other = none_id;
  };
  std::vector<Sometimes> sometimes;
  std::vector<ValueId> changing;  // values from outside that such variables are when they are written
};

// `node` is a prim::If or prim::Loop whose arguments are as the program was read. `may_meet` says of two values from
// outside whether they may share memory.
OuterWrites outer_writes(const Program& program, const Node& node, const MayMeet& may_meet);

}  // namespace whence::lower
