// Example inputs for the run: given in a file, made to a specification, or shaped as the trace recorded them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "recorder/archive.h"
#include "recorder/torch_pch.h"
#include "schema/recorder_api.h"

namespace whence {

// The arguments of forward, one IValue each (containers as they are), at one or two sizes.
struct ExampleInputs {
  bool given = false;                                 // false: nothing to run
  std::vector<std::string> names;                     // forward's argument names, self left out
  std::vector<std::array<c10::IValue, 2>> arguments;  // [run]; the second run only when `runs` is 2
  int runs = 1;
  std::vector<Symbol> symbols;
  std::vector<std::array<std::int64_t, 2>> symbol_sizes;
};

// `attempt` chooses the second run's sizes: models are particular (position tables end, feature maps must divide), so
// the caller tries again with the next attempt when the second run fails. There are `size_attempts` of them.
inline constexpr int size_attempts = 4;
ExampleInputs make_inputs(Archive& archive, const ReadOptions& options, int attempt);

// npz files, which LibTorch cannot read: name to tensor, in the file's order.
std::vector<std::pair<std::string, at::Tensor>> read_npz(const std::string& path);

}  // namespace whence
