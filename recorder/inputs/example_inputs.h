// Example inputs for the runs: read from a file, generated from a specification, or generated with the traced shapes.
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
// dynamic: run 0 has the example's sizes, run 1 has others. The runs from 2 on are check runs: two sizes may agree by
// coincidence (a pooling that leaves one element of 8 and of 13), so more sizes make it less likely that a dynamic size
// looks fixed. A check run that the model does not accept is dropped. If two sizes are not far apart, each is the
// greater one in some run. In `single_run` each size is 1, below every length that a model names (x[-2:]).
struct ExampleInputs {
  bool available = false;                // false: nothing to run
  std::vector<std::string> names;        // forward's argument names, without self
  std::vector<std::string> graph_names;  // names for the graph's inputs: one for each tensor
  std::vector<PerRun<c10::IValue>> arguments;
  std::set<std::size_t> defaulted_arguments;  // arguments without an example that have a default; they become constants
  int runs = 1;
  int single_run = 0;              // 0: none
  int first_large_run = max_runs;  // first run with sizes that are several times the example's
  IndexedVector<SymbolId, Symbol> symbols;
  IndexedVector<SymbolId, PerRun<std::int64_t>> symbol_sizes;
  std::size_t free_symbols = 0;  // number of leading symbols with chosen sizes; the later symbols are derived

  // A tensor: the number of its argument, and its position among the argument's tensors.
  struct Place {
    std::size_t argument = 0, tensor = 0;
    bool operator==(const Place&) const = default;
  };
  // Returns the place of a tensor by the name of its argument or of the graph's input, such as "hc.0". Throws Error
  // input_mismatch if there is none.
  Place place_of(const std::string& name) const;
  std::size_t position_of(const std::string& name) const;  // returns the argument's number
};

// Throws Error input_mismatch: example inputs do not fit the model.
[[noreturn]] void mismatch(const std::string& message, const std::string& remedy);

// `attempt` chooses the second run's sizes: not every model accepts every size (position tables end, feature maps must
// be divisible), so the caller makes the next attempt if the second run fails. There are `size_attempts` attempts.
inline constexpr int size_attempts = 5;
ExampleInputs make_inputs(archive::Archive& archive, const ReadOptions& options, int attempt);

// Sets the sizes of the runs after the first (dynamic_axes.cpp).
void apply_dynamic_axes(ExampleInputs& inputs, const std::vector<DynamicAxis>& dynamic, int attempt);

// Removes a check run; later runs move up.
void drop_run(ExampleInputs& inputs, int run);

// Two sizes that are equal in the example and may have to stay equal: PyTorch's `dynamic_axes={"x": [0], "lengths":
// [0]}` names each axis separately, even if the model needs them equal.
struct Tie {
  std::string kept, other;
};
std::vector<Tie> possible_ties(const ExampleInputs& inputs);
void apply_tie(std::vector<DynamicAxis>& dynamic, const Tie& tie);

// Reads an npz file, which LibTorch cannot: name to tensor, in the file's order.
std::vector<std::pair<std::string, at::Tensor>> read_npz(const std::string& path);

}  // namespace whence::recorder::inputs
