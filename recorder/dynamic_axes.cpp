// The other sizes of dynamic axes: which, and the example inputs brought to them.
#include <algorithm>

#include "recorder/example_inputs.h"

namespace whence {

namespace {

// Sizes in run 1: distinct for each symbol, so that sizes tell symbols apart. First one that divides and is divided by
// little, then multiples for models that want them, then smaller ones for models with a limit. Never 1, which
// broadcasting would let pass where no other size fits.
std::int64_t second_size(std::int64_t first, int symbol, int attempt) {
  const std::int64_t larger[size_attempts] = {first + 3 + 2 * symbol, first * (symbol + 2), first + symbol + 1,
                                              5 * first + symbol, first + 6 + symbol};
  const std::int64_t smaller[size_attempts] = {0, 0, 0, first / 2, first - 1 - symbol};
  return smaller[attempt] >= 2 ? smaller[attempt] : larger[attempt];
}

// Those of the witnesses: about half, some times as large, and much larger.
std::int64_t witness_size(std::int64_t first, int symbol, int run) {
  const std::int64_t half = first / 2 - symbol;
  if (run == 2) return half >= 2 ? half : first + 5 + 3 * symbol;
  return run == 3 ? 4 * first + 1 + 2 * symbol : 24 * first + 11 + 2 * symbol;
}

PerRun<std::int64_t> sizes_of(std::int64_t first, int symbol, int attempt) {
  PerRun<std::int64_t> sizes{first, second_size(first, symbol, attempt)};
  for (int run = 2; run < most_runs; ++run) sizes[run] = witness_size(first, symbol, run);
  return sizes;
}

struct Axis {
  std::size_t argument = 0;
  std::int64_t axis = 0;
  std::size_t symbol = 0;
};

// Looks an axis up in the example inputs, and its symbol up or adds it.
Axis found(ExampleInputs& inputs, const DynamicAxis& dynamic, int attempt) {
  Axis result{inputs.position_of(dynamic.input), dynamic.axis, 0};
  const c10::IValue& argument = inputs.arguments[result.argument][0];
  if (!argument.isTensor()) {
    mismatch("input '" + dynamic.input + "' is no tensor, so it has no axis to make dynamic",
             "leave it out of --dynamic");
  }
  const std::int64_t rank = argument.toTensor().dim();
  if (dynamic.axis < 0 || dynamic.axis >= rank) {
    mismatch("input '" + dynamic.input + "' has no axis " + std::to_string(dynamic.axis),
             "its rank is " + std::to_string(rank));
  }
  const std::int64_t size = argument.toTensor().size(result.axis);
  if (size == 0) {
    mismatch("axis " + std::to_string(dynamic.axis) + " of input '" + dynamic.input + "' has size 0 in the example",
             "give an example in which it has at least one entry, with --input or --inputs");
  }
  while (result.symbol < inputs.symbols.size() && inputs.symbols[result.symbol].name != dynamic.symbol) ++result.symbol;
  if (result.symbol == inputs.symbols.size()) {
    inputs.symbols.push_back({dynamic.symbol, size, {}, {}});
    inputs.symbol_sizes.push_back(sizes_of(size, static_cast<int>(result.symbol), attempt));
  } else if (inputs.symbols[result.symbol].example != size) {
    mismatch("size '" + dynamic.symbol + "' is " + std::to_string(inputs.symbols[result.symbol].example) + " and " +
                 std::to_string(size) + " in the example inputs",
             "give the two axes different names, or examples of one size");
  }
  return result;
}

// Witnesses cost time: the larger ones stand aside when they would multiply the work of a model with large inputs.
int affordable_runs(const ExampleInputs& inputs, const std::vector<Axis>& axes) {
  constexpr double small_enough = 1 << 16, most_times = 6;
  const auto elements = [&](int run) {
    double sum = 0;
    for (std::size_t i = 0; i < inputs.arguments.size(); ++i) {
      const c10::IValue& argument = inputs.arguments[i][0];
      if (!argument.isTensor()) continue;
      auto count = static_cast<double>(argument.toTensor().numel());
      for (const Axis& axis : axes) {
        const auto& sizes = inputs.symbol_sizes[axis.symbol];
        if (axis.argument == i) count *= static_cast<double>(sizes[run]) / static_cast<double>(sizes[0]);
      }
      sum += count;
    }
    return sum;
  };
  int runs = 3;
  while (runs < most_runs && (elements(runs) <= small_enough || elements(runs) <= most_times * elements(0))) ++runs;
  return runs;
}

// Repeats or cuts `tensor` along `axis` until it has `size` entries.
at::Tensor resized(const at::Tensor& tensor, std::int64_t axis, std::int64_t size) {
  return tensor.index_select(axis, at::arange(size, at::kLong).remainder(tensor.size(axis)));
}

}  // namespace

void apply_dynamic_axes(ExampleInputs& inputs, const std::vector<DynamicAxis>& dynamic, int attempt) {
  std::vector<Axis> axes;
  for (const DynamicAxis& each : dynamic) axes.push_back(found(inputs, each, attempt));
  if (axes.empty()) return;
  inputs.runs = affordable_runs(inputs, axes);
  for (const Axis& axis : axes) {
    auto& argument = inputs.arguments[axis.argument];
    for (int run = 1; run < inputs.runs; ++run) {
      argument[run] = resized(argument[run].toTensor(), axis.axis, inputs.symbol_sizes[axis.symbol][run]);
    }
  }
}

}  // namespace whence
