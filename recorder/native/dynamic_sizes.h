// Sizes that a C++ trace bakes: x.size(0) is a plain number there, and so becomes a constant of the program. Traces at
// several sizes show which constants are sizes in truth, and of what; each is replaced by what computes it.
#pragma once

#include <string>
#include <vector>

#include "recorder/native/traced_steps.h"

namespace whence::native {

// A dynamic size: where the program can read it, and what it was in each trace, the main one first.
struct TracedSize {
  std::string name;
  std::size_t input = 0;  // of forward
  std::int64_t axis = 0;
  std::vector<std::int64_t> seen;
};

// Replaces constants of `graph`, whose steps are traces[0]; returns the operations that read them.
// Throws Error(baked_size): the traces are different programs, or a constant differs that is not a size: a number
// computed from sizes in another way, or a tensor made outside the trace. Every one is named, with its line.
std::vector<const Step*> make_dynamic(torch::jit::Graph& graph, const std::vector<std::vector<Step>>& traces,
                                      const std::vector<TracedSize>& sizes, Symbols& symbols);

// The model's own line behind a stack: file, line and function of the innermost frame that is not of a header of
// LibTorch's; "" when unknown.
std::string source_of(const NativeStack& stack, Symbols& symbols);

}  // namespace whence::native
