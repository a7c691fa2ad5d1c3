// Makes sizes in a C++ trace dynamic. x.size(0) is a plain number in C++, so the trace holds a constant. Traces at
// several sizes show which constants are sizes and which axes they come from. Operations that compute the size replace
// the constant.
#pragma once

#include <string>
#include <vector>

#include "recorder/native/traced_steps.h"

namespace whence::native {

// A dynamic size: the input and axis that have it, and its value in each trace, the main one first.
struct TracedSize {
  std::string name;
  std::size_t input = 0;  // position among the arguments of forward
  std::int64_t axis = 0;
  std::vector<std::int64_t> seen;
};

// Replaces constants of `graph`, whose steps are traces[0]; returns the operations that read them.
// Throws Error(baked_size) if the traces are different programs, or if a constant differs between traces but is not a
// size: a number computed from sizes in another way, or a tensor made outside the trace. The error lists each constant
// with its source line.
std::vector<const Step*> make_dynamic(torch::jit::Graph& graph, const std::vector<std::vector<Step>>& traces,
                                      const std::vector<TracedSize>& sizes, Symbols& symbols);

// Returns file, line and function of the innermost frame that is not in a header of LibTorch; "" if unknown.
std::string source_of(const NativeStack& stack, Symbols& symbols);

}  // namespace whence::native
