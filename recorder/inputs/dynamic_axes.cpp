// Chooses the sizes of dynamic axes for the runs after the first, and resizes the example inputs to them.
#include <algorithm>
#include <cstdlib>

#include "recorder/inputs/example_inputs.h"
#include "recorder/inputs/leaves.h"

namespace whence::recorder::inputs {

namespace {

// Returns the size in run 1. It differs between symbols, so that a size identifies its symbol. The first attempt has
// few divisors and multiples. Later attempts are multiples of the example's size for models that require them, then
// smaller sizes for models with a limit. Never 1, which broadcasting would accept where no other size fits.
std::int64_t second_size(std::int64_t first, int symbol, int attempt) {
  const std::int64_t larger[size_attempts] = {first + 3 + 2 * symbol, first * (symbol + 2), first + symbol + 1,
                                              5 * first + symbol, first + 6 + symbol};
  const std::int64_t smaller[size_attempts] = {0, 0, 0, first / 2 - symbol, first - 1 - symbol};
  return smaller[attempt] >= 2 ? smaller[attempt] : larger[attempt];
}

// Check runs: about half the size, size 1, another order of sizes, several times the size, and much larger sizes. The
// last ones multiply the work and are dropped first. One run enlarges only the batch, another all other axes: both at
// once would cost as much as hundreds of examples, and one of them is enough to exceed a limit that the model checks.
constexpr int shorter_run = 2, single_run = 3, reordered_run = 4, longer_run = 5, large_batch_run = 6, long_run = 7;

// Returns the size in a check run: about half, 1, the example's, several times as large, or much larger.
std::int64_t witness_size(std::int64_t first, int symbol, bool is_batch, int run) {
  const std::int64_t half = first / 2 - symbol;
  if (run == single_run) return 1;
  if (run == shorter_run) return half >= 2 ? half : first + 5 + 3 * symbol;
  if (run == longer_run) return 4 * first + 1 + 2 * symbol;
  return run == (is_batch ? large_batch_run : long_run) ? 24 * first + 11 + 2 * symbol : first;
}

// Returns the sizes in all runs. A size of 0 in the example does not show the usual size, so the other runs then use
// sizes for a small example.
PerRun<std::int64_t> sizes_of(std::int64_t first, int symbol, bool is_batch, int attempt) {
  const std::int64_t usual = std::max<std::int64_t>(first, first == 0 ? 2 : 1);
  PerRun<std::int64_t> sizes{first, second_size(usual, symbol, attempt)};
  for (int run = 2; run < max_runs; ++run) sizes[run] = witness_size(usual, symbol, is_batch, run);
  return sizes;
}

// Varies the order of sizes that are not far apart, such as height and width: they are equal in two runs, and in
// another run their order is reversed and the greatest doubled. If the same size were the greater one in every run, a
// result that depends on which is greater (a resize that makes the shorter side 800 long) would look like a fixed size.
// They are equal in two runs, because one run would show only one value. Returns true if any two sizes are not far
// apart.
bool vary_ratios(ExampleInputs& inputs) {
  constexpr std::int64_t far_apart = 4;
  std::vector<SymbolId> order;
  std::ranges::copy(inputs.symbols.keys(), std::back_inserter(order));
  const auto size = [&](SymbolId symbol) -> std::int64_t& { return inputs.symbol_sizes[symbol][reordered_run]; };
  std::ranges::stable_sort(order, {}, size);
  bool any = false;
  for (auto first = order.begin(), last = first; first != order.end(); first = last) {
    const std::int64_t least = size(*first), too_large = std::max<std::int64_t>(far_apart * least, 1);
    last = std::find_if(std::next(first), order.end(), [&](SymbolId each) { return size(each) >= too_large; });
    if (last - first < 2) continue;
    any = true;
    const std::int64_t shorter = inputs.symbol_sizes[*first][shorter_run];
    for (auto each = first; each != last; ++each) {
      inputs.symbol_sizes[*each][shorter_run] = shorter;
      inputs.symbol_sizes[*each][longer_run] = 2 * least + 1;
    }
    if (size(*first) == size(*std::prev(last))) {
      for (auto each = first; each != last; ++each) size(*each) += 2 * (last - each);
      continue;
    }
    for (auto low = first, high = std::prev(last); low < high; ++low, --high) std::swap(size(*low), size(*high));
    size(*first) *= 2;
  }
  return any;
}

// Returns true if the run differs from the example. A run that enlarges only the batch, or only other axes, may not.
bool run_differs(const ExampleInputs& inputs, int run) {
  return std::ranges::any_of(inputs.symbol_sizes, [run](const auto& each) { return each[run] != each[0]; });
}

// Returns true if the run with size 1 differs from the example and leaves no derived size below 1.
bool single_run_is_useful(const ExampleInputs& inputs) {
  const auto& sizes = inputs.symbol_sizes;
  return std::ranges::all_of(sizes, [](const auto& each) { return each[single_run] >= 1; }) &&
         run_differs(inputs, single_run);
}

struct Axis {
  ExampleInputs::Place place;
  std::int64_t axis = 0;
  SymbolId symbol = none_id;
  const DynamicAxis* derived = nullptr;  // set if its size is derived from the symbol
};

// Returns the symbol with this name; none_id if there is none.
SymbolId symbol_called(const ExampleInputs& inputs, const std::string& name) {
  for (const SymbolId symbol : inputs.symbols.keys()) {
    if (inputs.symbols[symbol].name == name) return symbol;
  }
  return none_id;
}

std::string text_of(const DynamicAxis& axis) {
  std::string text = axis.times == 1 ? axis.symbol : std::to_string(axis.times) + "*" + axis.symbol;
  if (axis.plus != 0) text += (axis.plus > 0 ? "+" : "-") + std::to_string(std::abs(axis.plus));
  return text;
}

// Adds a symbol for a size that is derived from another, such as 2*batch+1; the expression is its name.
void add_derived(ExampleInputs& inputs, const DynamicAxis& axis, SymbolId root) {
  if (symbol_called(inputs, text_of(axis)).exists()) return;
  PerRun<std::int64_t> sizes = inputs.symbol_sizes[root];
  for (std::int64_t& size : sizes) size = axis.times * size + axis.plus;
  const Size size = Size::symbol(root) * axis.times + axis.plus;
  inputs.symbols.push_back({text_of(axis), sizes[0], {}, {}, SymbolKind::derived, size});
  inputs.symbol_sizes.push_back(sizes);
}

// Returns the example tensor at a place. Refuses the name of a container, whose tensors have separate names.
at::Tensor tensor_at(const ExampleInputs& inputs, const ExampleInputs::Place& place, const std::string& name) {
  const c10::IValue& argument = inputs.arguments[place.argument][0];
  const std::vector<Leaf> tensors = leaves(argument, inputs.names[place.argument]);
  const bool names_container = !argument.isTensor() && inputs.names[place.argument] == name;
  if (!names_container && place.tensor < tensors.size()) return tensors[place.tensor].tensor;
  mismatch("input '" + name + "' is not a tensor, so it has no axis to make dynamic",
           tensors.empty() ? "leave it out of --dynamic"
                           : "name its tensors: " + tensors.front().name + ":0=batch, and so on");
}

// Returns the symbols of a sum such as "past+seq"; nothing if no axes of the inputs have these names: then the text is
// an ordinary name.
std::vector<SymbolId> parts_of(const ExampleInputs& inputs, const DynamicAxis& axis) {
  std::vector<SymbolId> parts;
  for (const std::string& part : axis.parts) parts.push_back(symbol_called(inputs, part));
  return std::ranges::all_of(parts, &SymbolId::exists) ? parts : std::vector<SymbolId>();
}

// Adds a symbol for a size that is the sum of two others, in every run.
void add_sum(ExampleInputs& inputs, const DynamicAxis& axis) {
  const std::vector<SymbolId> parts = parts_of(inputs, axis);
  if (parts.empty() || symbol_called(inputs, axis.symbol).exists()) return;
  Size size;
  for (const SymbolId part : parts) size = size + Size::symbol(part);
  PerRun<std::int64_t> sizes{};
  for (int run = 0; run < max_runs; ++run) {
    for (const SymbolId part : parts) sizes[run] += inputs.symbol_sizes[part][run];
  }
  inputs.symbols.push_back({axis.symbol, sizes[0], {}, {}, SymbolKind::derived, size});
  inputs.symbol_sizes.push_back(sizes);
}

// Finds an axis in the example inputs, and adds its symbol if it is new.
Axis resolve_axis(ExampleInputs& inputs, const DynamicAxis& dynamic, int attempt) {
  Axis result{inputs.place_of(dynamic.input), dynamic.axis};
  const at::Tensor tensor = tensor_at(inputs, result.place, dynamic.input);
  const std::int64_t rank = tensor.dim();
  if (dynamic.axis < -rank || dynamic.axis >= rank) {
    mismatch("input '" + dynamic.input + "' has no axis " + std::to_string(dynamic.axis),
             "its rank is " + std::to_string(rank));
  }
  if (result.axis < 0) result.axis += rank;
  const std::int64_t size = tensor.size(result.axis);
  const std::int64_t root = (size - dynamic.plus) / dynamic.times;
  if (root < 0 || root * dynamic.times + dynamic.plus != size) {
    mismatch("axis " + std::to_string(dynamic.axis) + " of input '" + dynamic.input + "' has size " +
                 std::to_string(size) + " in the example, which does not fit " + text_of(dynamic),
             "pass an example that fits");
  }
  result.symbol = symbol_called(inputs, dynamic.symbol);
  if (result.symbol == none_id) {
    result.symbol = inputs.symbols.add({dynamic.symbol, root, {}, {}, SymbolKind::axis, Size::unknown()});
    inputs.symbol_sizes.push_back(sizes_of(root, result.symbol.number(), result.axis == 0, attempt));
  } else if (inputs.symbols[result.symbol].example != root) {
    mismatch("size '" + dynamic.symbol + "' is " + std::to_string(inputs.symbols[result.symbol].example) + " and " +
                 std::to_string(root) + " in the example inputs",
             "use different names for the two axes, or examples of equal size");
  }
  return result;
}

// Returns the number of runs. Drops the larger check runs if they would multiply the work of a model with large inputs.
int affordable_runs(const ExampleInputs& inputs, const std::vector<Axis>& axes) {
  constexpr double small_enough = 1 << 16, max_factor = 6;
  const auto elements = [&](int run) {
    double sum = 0;
    for (std::size_t i = 0; i < inputs.arguments.size(); ++i) {
      const std::vector<Leaf> tensors = leaves(inputs.arguments[i][0], "");
      for (std::size_t k = 0; k < tensors.size(); ++k) {
        std::vector<std::int64_t> sizes = tensors[k].tensor.sizes().vec();
        for (const Axis& axis : axes) {
          if (axis.place.argument == i && axis.place.tensor == k)
            sizes[axis.axis] = inputs.symbol_sizes[axis.symbol][run];
        }
        double count = 1;
        for (const std::int64_t size : sizes) count *= static_cast<double>(size);
        sum += count;
      }
    }
    return sum;
  };
  int runs = inputs.single_run > 0 ? 4 : 3;
  while (runs < inputs.runs && (elements(runs) <= small_enough || elements(runs) <= max_factor * elements(0))) ++runs;
  return runs;
}

// Repeats or cuts `tensor` along `axis` to `size` entries; an empty axis is filled with zeros. A vector of integers is
// stretched instead, so that sorted lengths of sequences stay sorted.
at::Tensor resized(const at::Tensor& tensor, std::int64_t axis, std::int64_t size) {
  if (tensor.size(axis) == 0) {
    std::vector<std::int64_t> sizes = tensor.sizes().vec();
    sizes[axis] = size;
    return at::zeros(sizes, tensor.options());
  }
  const at::Tensor places = at::arange(size, at::kLong);
  const std::int64_t count = tensor.size(axis);
  const bool numbers = tensor.dim() == 1 && at::isIntegralType(tensor.scalar_type(), false);
  return tensor.index_select(axis,
                             numbers && size > count ? places.mul(count).floor_divide(size) : places.remainder(count));
}

}  // namespace

std::vector<Tie> possible_ties(const ExampleInputs& inputs) {
  std::vector<Tie> ties;
  const std::vector<Symbol>& symbols = inputs.symbols.items();
  for (auto a = symbols.begin(); a != symbols.end(); ++a) {
    for (auto b = std::next(a); b != symbols.end(); ++b) {
      if (a->example == b->example) ties.push_back({a->name, b->name});
    }
  }
  return ties;
}

void apply_tie(std::vector<DynamicAxis>& dynamic, const Tie& tie) {
  for (DynamicAxis& axis : dynamic) {
    if (axis.symbol == tie.other) {
      axis.symbol = tie.kept;
    } else if (!axis.parts.empty()) {
      std::ranges::replace(axis.parts, tie.other, tie.kept);
      axis.symbol = axis.parts[0] + "+" + axis.parts[1];
    }
  }
}

void drop_run(ExampleInputs& inputs, int run) {
  const auto move_up = [run](auto& of_runs) {
    std::copy(of_runs.begin() + run + 1, of_runs.end(), of_runs.begin() + run);
  };
  for (PerRun<std::int64_t>& sizes : inputs.symbol_sizes) move_up(sizes);
  for (PerRun<c10::IValue>& argument : inputs.arguments) move_up(argument);
  --inputs.runs;
  if (run < inputs.first_large_run) --inputs.first_large_run;
}

void apply_dynamic_axes(ExampleInputs& inputs, const std::vector<DynamicAxis>& dynamic, int attempt) {
  if (dynamic.empty()) return;
  std::vector<Axis> axes;
  const auto add_axes = [&](bool sums) {
    for (const DynamicAxis& each : dynamic) {
      if (each.parts.empty() == sums) continue;
      if (sums) add_sum(inputs, each);
      Axis axis = resolve_axis(inputs, each, attempt);
      const auto is_same = [&](const Axis& other) { return other.place == axis.place && other.axis == axis.axis; };
      if (std::ranges::any_of(axes, is_same)) {
        mismatch("axis " + std::to_string(each.axis) + " of input '" + each.input + "' is named twice",
                 "name it once: -1 is the last axis");
      }
      axis.derived = each.derived() ? &each : nullptr;
      axes.push_back(axis);
    }
  };
  add_axes(false);
  inputs.free_symbols = inputs.symbols.size();
  const bool reordered = vary_ratios(inputs);
  add_axes(true);  // sums come after the sizes that they add
  for (Axis& axis : axes) {
    if (axis.derived == nullptr) continue;
    add_derived(inputs, *axis.derived, axis.symbol);
    axis.symbol = symbol_called(inputs, text_of(*axis.derived));
  }
  inputs.runs = max_runs;
  inputs.first_large_run = longer_run;
  const auto drop_run_unless = [&](bool used, int run) {
    if (!used) drop_run(inputs, run);
  };
  const bool single = single_run_is_useful(inputs);
  for (const int run : {long_run, large_batch_run}) drop_run_unless(run_differs(inputs, run), run);
  drop_run_unless(reordered, reordered_run);
  drop_run_unless(single, single_run);
  inputs.single_run = single ? single_run : 0;
  inputs.runs = affordable_runs(inputs, axes);
  for (const Axis& axis : axes) {
    auto& argument = inputs.arguments[axis.place.argument];
    for (int run = 1; run < inputs.runs; ++run) {
      std::size_t seen = 0;
      argument[run] = map_tensors(argument[run], [&](const at::Tensor& tensor) {
        const bool here = seen++ == axis.place.tensor;
        return here ? resized(tensor, axis.axis, inputs.symbol_sizes[axis.symbol][run]) : tensor;
      });
    }
  }
}

}  // namespace whence::recorder::inputs
