// y = kron(a, b)   ->   reshape, reshape, mul, reshape
//
// An operator without a converter that ATen defines by other operators is replaced with them. PyTorch traces the call
// at several sizes of every dynamic axis: this distinguishes a size among the arguments of a step from a constant of
// the definition, and the size is then read from its axis. Steps that differ otherwise are refused. The random contents
// of the runs differ too, so that no value that depends on them passes for a constant.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "annotator/lower/pass.h"
#include "schema/recorder_api.h"

namespace whence::lower {

// Fills `steps`, see RecorderApi::trace_composite. Returns false without diagnostics if the operator is not a
// composite. May throw Error.
using TraceComposite = std::function<bool(const CompositeCall&, Program& steps, Diagnostics&)>;

// The operators that the pass decomposes. This happens before all other passes except settle_branches(): their results
// may be views that the program writes through, and their complex tensors become pairs with the others. The list of
// operators comes from a first lowering without it: the operators that no pass rewrote.
struct Composites {
  const TraceComposite& trace;
  std::set<std::string> keys = {};  // "aten::kron"
  Failures refused = {};            // filled by the pass: why a call could not be decomposed

  // Returns the operator of `keys` that the node calls, directly or by its in-place form (aten::subtract for
  // aten::subtract_); nullptr if none.
  const std::string* decomposed_by(const Program& program, const Node& node) const;
};

}  // namespace whence::lower
