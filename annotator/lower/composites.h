// y = kron(a, b)   ->   reshape, reshape, mul, reshape
//
// An operator without a converter that ATen defines by others is put in terms of those, by asking PyTorch what it
// calls. PyTorch is asked at two sizes of every dynamic axis: a size among the arguments of a step is then told from a
// number of the definition, and becomes that of the axis it belongs to. Steps that differ otherwise are refused. The
// random content of the two differs as well, so that nothing which depends on it can pass for a constant.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "annotator/lower/pass.h"
#include "schema/recorder_api.h"

namespace whence::lower {

// Fills `steps`, see RecorderApi::trace_composite; false without diagnostics for what is not a composite. May throw
// Error.
using TraceComposite = std::function<bool(const CompositeCall&, Program& steps, Diagnostics&)>;

// The operators that the pass opens. They are opened before any other pass but settle_branches(): their results may be
// views that the program writes through, and their complex tensors become pairs with the others. So which operators to
// open is known from a program that was lowered without: those that no pass wrote in another way.
struct Composites {
  const TraceComposite& trace;
  std::set<std::string> keys = {};  // "aten::kron"
  Failures refused = {};            // added by the pass: why a call of an operator of `keys` could not be opened

  // The operator of `keys` that the node calls, or whose in-place form it calls (aten::subtract for aten::subtract_);
  // nullptr if none.
  const std::string* opened_by(const Program& program, const Node& node) const;
};

}  // namespace whence::lower
