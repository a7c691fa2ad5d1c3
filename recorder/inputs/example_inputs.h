// Example inputs for the runs: read from a file, made to a specification, or with the shapes that the trace recorded.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "recorder/archive/archive.h"
#include "recorder/base/runs.h"
#include "recorder/base/torch_pch.h"
#include "schema/recorder_api.h"

namespace whence::recorder::inputs {

// The arguments of forward, one IValue each (containers are not flattened), at one size, or at several if axes are
// dynamic: run 0 has the given sizes, run 1 others. The runs from 2 on are witnesses: two sizes may agree by
// coincidence (a pooling that leaves one element of 8 and of 13), so more sizes make it less likely that a dynamic size
// is taken for a fixed one. A witness that the model does not accept drops out. Of two sizes that are not far apart,
// either is the greater in some run; in `single_run` each is 1, below every length that a model names (x[-2:]).
struct ExampleInputs {
  bool given = false;                    // false: nothing to run
  std::vector<std::string> names;        // forward's argument names, self left out
  std::vector<std::string> graph_names;  // names for the graph's inputs: one for each tensor
  std::vector<PerRun<c10::IValue>> arguments;
  std::set<std::size_t>
      left_to_default;  // arguments that were not given: constants, as for a caller that leaves it out
  int runs = 1;
  int single_run = 0;               // 0: there is none
  int first_large_run = most_runs;  // from here on, sizes are some times those of the example
  IndexedVector<SymbolId, Symbol> symbols;
  IndexedVector<SymbolId, PerRun<std::int64_t>> symbol_sizes;
  std::size_t free_symbols = 0;  // the first of them, whose sizes were chosen; those of the others follow

  // A tensor: that argument, or the one of that number in it.
  struct Place {
    std::size_t argument = 0, tensor = 0;
    bool operator==(const Place&) const = default;
  };
  // By the name of an argument, or of the graph's input: the one asked for, or "hc.0". Error input_mismatch when there
  // is none.
  Place place_of(const std::string& name) const;
  std::size_t position_of(const std::string& name) const;  // the argument's number
};

// Throws Error input_mismatch: example inputs do not fit the model.
[[noreturn]] void mismatch(const std::string& message, const std::string& remedy);

// `attempt` chooses the second run's sizes: not every model accepts every size (position tables end, feature maps must
// divide), so the caller tries again with the next attempt when the second run fails. There are `size_attempts` of
// them.
inline constexpr int size_attempts = 5;
ExampleInputs make_inputs(archive::Archive& archive, const ReadOptions& options, int attempt);

// Sizes for the runs after the first (dynamic_axes.cpp).
void apply_dynamic_axes(ExampleInputs& inputs, const std::vector<DynamicAxis>& dynamic, int attempt);

// Takes a witness away: those behind it move up.
void leave_out(ExampleInputs& inputs, int run);

// Two sizes that have one value in the example and may have to stay equal: PyTorch's
// `dynamic_axes={"x": [0], "lengths": [0]}` names each axis separately, even if the model needs them equal.
struct Tie {
  std::string kept, other;
};
std::vector<Tie> possible_ties(const ExampleInputs& inputs);
void apply_tie(std::vector<DynamicAxis>& dynamic, const Tie& tie);

// npz files, which LibTorch cannot read: name to tensor, in the file's order.
std::vector<std::pair<std::string, at::Tensor>> read_npz(const std::string& path);

}  // namespace whence::recorder::inputs
