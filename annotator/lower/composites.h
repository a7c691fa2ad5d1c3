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

// Opens the operators of `wanted` ("aten::kron"). What is refused stays as it is; the reason is among the failures.
void expand_composites(Lowering& lowering, const std::set<std::string>& keys, const TraceComposite& trace);

}  // namespace whence::lower
