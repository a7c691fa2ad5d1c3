// The public functions. They trace a module into an archive, and run the whence command on it.
#include "whence/record.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <numeric>
#include <ranges>

#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/version.h>
#include <unistd.h>

#include "recorder/base/live_mark.h"
#include "recorder/base/torch_error.h"
#include "recorder/inputs/example_inputs.h"
#include "recorder/native/layer_scope.h"
#include "recorder/native/tracing.h"
#include "recorder/native/whence_command.h"
#include "schema/files/files.h"
#include "schema/files/paths.h"
#include "schema/files/scratch_folder.h"
#include "schema/module_path.h"

namespace whence::native {

using recorder::is_python_keyword;
using recorder::live_file;
using recorder::LiveMark;
using recorder::torch_message;
using recorder::inputs::apply_dynamic_axes;
using recorder::inputs::ExampleInputs;
using recorder::inputs::mismatch;
using recorder::inputs::size_attempts;

namespace {

// Sets eval mode during the recording, and restores each module's mode afterwards.
class EvalMode {
 public:
  EvalMode(torch::nn::Module& module, bool stay) {
    if (stay) return;
    collect(module);
    module.eval();
  }
  ~EvalMode() {
    for (const auto& [module, training] : before_) module->train(training);  // parents first, as train() goes down
  }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  void collect(torch::nn::Module& module) {
    before_.emplace_back(&module, module.is_training());
    for (const auto& child : module.children()) collect(*child);
  }

  std::vector<std::pair<torch::nn::Module*, bool>> before_;
};

bool is_identifier(const std::string& name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

std::vector<std::string> names_of(const Inputs& inputs, const Options& options) {
  std::vector<std::string> names = options.input_names;
  if (names.size() > inputs.size()) {
    mismatch(std::to_string(inputs.size()) + " inputs and " + std::to_string(names.size()) + " input_names were passed",
             "pass at most one name for each input");
  }
  for (std::size_t i = names.size(); i < inputs.size(); ++i) {
    names.push_back(inputs.size() == 1 ? "x" : "x" + std::to_string(i));
  }
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (!is_identifier(*name) || std::find(names.begin(), name, *name) != name || *name == "self" ||
        is_python_keyword(*name)) {
      throw Error(Code::bad_input_spec, "'" + *name + "' cannot name an input",
                  "use letters, digits and _, each name once, no Python keyword", {.stage = "record"});
    }
  }
  return names;
}

std::vector<DynamicAxis> axes_of(const Options& options) {
  std::vector<DynamicAxis> axes;
  for (const auto& [input, named] : options.dynamic_axes) {
    for (const auto& [axis, symbol] : named) {
      if (!is_identifier(symbol)) {
        throw Error(Code::bad_input_spec, "'" + symbol + "' cannot name a size", "use letters, digits and _",
                    {.stage = "record"});
      }
      axes.push_back({input, axis, symbol, 1, 0, {}});
    }
  }
  return axes;
}

ExampleInputs examples_of(const Inputs& inputs, const std::vector<std::string>& names) {
  ExampleInputs examples;
  examples.available = true;
  examples.names = names;
  for (const at::Tensor& input : inputs) {
    examples.arguments.emplace_back().fill(input);
  }
  return examples;
}

// Makes negative axes non-negative. Axes out of range stay as they are, and are reported later.
void make_axes_non_negative(std::vector<DynamicAxis>& axes, const ExampleInputs& examples) {
  for (DynamicAxis& axis : axes) {
    const std::int64_t rank = examples.arguments[examples.position_of(axis.input)][0].toTensor().dim();
    if (axis.axis < 0 && axis.axis >= -rank) axis.axis += static_cast<int>(rank);
  }
}

std::int64_t elements(const Inputs& inputs) {
  std::int64_t sum = 0;
  for (const at::Tensor& input : inputs) sum += input.numel();
  return sum;
}

// Adds runs with other sizes of each dynamic axis; the other axes keep the example's size. A large size exceeds common
// limits in models, so that comparisons with a limit change their result; its elements are negated, so that sizes that
// depend on data change too. The large size is one less than a multiple of each usual stride. A multiple and the number
// after it are added: they show how a division by a stride is rounded. Last comes size 1, for each axis and for all
// together. Skips sizes for which the inputs would be too large. A module need not accept these sizes.
void add_extreme_sizes(const Inputs& inputs, const ExampleInputs& examples, const std::vector<DynamicAxis>& axes,
                       std::vector<TracedSize>& sizes, std::vector<Inputs>& resized) {
  constexpr std::int64_t large = 1919, multiple = 960, max_elements = 1 << 20;
  const auto add = [&](const std::vector<std::size_t>& changed, std::int64_t size) {
    const auto changes = [&](std::size_t i) { return std::ranges::find(changed, i) != changed.end(); };
    Inputs other = inputs;
    for (const DynamicAxis& axis : axes) {
      const auto of_axis = std::ranges::find(sizes, axis.symbol, &TracedSize::name);
      if (of_axis == sizes.end() || !changes(static_cast<std::size_t>(of_axis - sizes.begin()))) continue;
      at::Tensor& input = other[examples.position_of(axis.input)];
      if (input.numel() / input.size(axis.axis) * size > max_elements) break;
      input = input.index_select(axis.axis, at::arange(size, at::kLong).remainder(input.size(axis.axis)));
    }
    if (elements(other) == elements(inputs) || elements(other) > max_elements) return;
    for (at::Tensor& input : other) {
      if (size == large && input.is_floating_point()) input = -input;
    }
    for (std::size_t k = 0; k < sizes.size(); ++k) sizes[k].seen.push_back(changes(k) ? size : sizes[k].seen[0]);
    resized.push_back(std::move(other));
  };
  for (const std::int64_t size : {large, multiple, multiple + 1, std::int64_t{1}}) {
    for (std::size_t i = 0; i < sizes.size(); ++i) add({i}, size);
  }
  std::vector<std::size_t> all(sizes.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (all.size() > 1) add(all, 1);
}

// Traces at the example's size and at others. The sizes that a module accepts are unknown, so several are tried, as for
// archives.
TracedModule trace_at_sizes(torch::nn::Module& module, const Inputs& inputs, const std::vector<std::string>& names,
                            const Forward& forward, const std::vector<DynamicAxis>& axes) {
  // Reports errors in the axes before forward runs. Traces the example's own size first, so that an error there is not
  // reported as an error of another size.
  ExampleInputs named = examples_of(inputs, names);
  apply_dynamic_axes(named, axes, 0);
  TracedModule at_example = value_of(trace_module(module, inputs, names, forward, {}, {}));
  if (axes.empty()) return at_example;
  for (int attempt = 0;; ++attempt) {
    ExampleInputs examples = examples_of(inputs, names);
    apply_dynamic_axes(examples, axes, attempt);
    std::vector<Inputs> resized;
    std::vector<int> runs;  // without the run at size 1: all runs must succeed here, and many modules do not accept 1
    for (int run = 0; run < examples.runs; ++run) {
      if (run == 0 || run != examples.single_run) runs.push_back(run);
    }
    for (const int run : runs | std::views::drop(1)) {
      Inputs& other = resized.emplace_back();
      for (const auto& argument : examples.arguments) other.push_back(argument[run].toTensor());
    }
    std::vector<TracedSize> sizes;
    for (const SymbolId symbol : examples.symbols.keys()) {
      const auto axis = std::find_if(axes.begin(), axes.end(), [&](const DynamicAxis& each) {
        return each.symbol == examples.symbols[symbol].name;
      });
      std::vector<std::int64_t> seen;
      for (const int run : runs) seen.push_back(examples.symbol_sizes[symbol][run]);
      sizes.push_back({axis->symbol, examples.position_of(axis->input), axis->axis, std::move(seen)});
    }
    add_extreme_sizes(inputs, examples, axes, sizes, resized);
    Result<TracedModule> traced = trace_module(module, inputs, names, forward, std::move(sizes), resized);
    if (traced || attempt + 1 == size_attempts) return value_of(std::move(traced));
  }
}

std::string dynamic_argument(const std::string& input, const std::map<int, std::string>& axes) {
  std::string text = input + ":";
  for (const auto& [axis, symbol] : axes) {
    text += (text.back() == ':' ? "" : ",") + std::to_string(axis) + "=" + symbol;
  }
  return text;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ",") + text;
  return all;
}

void save(const TracedModule& traced, const std::string& archive, bool kept) {
  try {
    torch::jit::ExtraFilesMap extra;
    LiveMark mark{kept, {}};
    if (!traced.report.dynamic.empty()) {  // the expressions hold for the traced sizes, so the smallest one is a limit
      for (const auto& [name, seen] : traced.report.sizes) mark.least[name] = *std::ranges::min_element(seen);
    }
    extra[live_file] = to_text(mark);
    traced.module.save(archive, extra);
  } catch (const std::exception& error) {
    throw Error(Code::cannot_write, "the traced program cannot be saved: " + torch_message(error),
                "check the free space of the folder for temporary files ($TMPDIR)",
                {.file = archive, .stage = "write"});
  }
}

void save(const Inputs& inputs, const std::string& path) {
  std::vector<c10::IValue> elements(inputs.begin(), inputs.end());
  const std::vector<char> bytes = torch::jit::pickle_save(c10::ivalue::Tuple::create(std::move(elements)));
  write_file(path, {bytes.data(), bytes.size()});
}

// Adds a warning for each buffer that forward changes. Export already reports them; recording does not check writes.
void warn_of_changed_buffers(const std::set<std::string>& changed, Diagnostics& notes) {
  const auto about_state = [](const Diagnostic& note) { return note.code == Code::state_not_kept; };
  if (changed.empty() || std::any_of(notes.begin(), notes.end(), about_state)) return;
  for (const std::string& name : changed) {
    notes.push_back(warning(Code::state_not_kept,
                            "forward changes the buffer '" + name + "', which lasts for one run only",
                            "return the new value as an output and take it as an input, if later runs need it",
                            {.stage = "record", .module = std::string(module_around(name)), .has_module = true}));
  }
}

// Adds a warning for each operator whose result's size depends on data. C++ reads this size as a plain number, and
// traces at other sizes do not reveal it.
void warn_of_data_sized_operators(const std::set<std::string>& operators, Diagnostics& notes) {
  for (const std::string& name : operators) {
    notes.push_back(
        warning(Code::baked_value,
                "the size of the result of " + name +
                    " depends on data; a number that forward reads from this size is fixed to the example's",
                "compute values that depend on it with tensors: torch::ones_like, mask.sum()",
                {.stage = "record", .op = name}));
  }
}

// Traces the module, and runs the command on the archive. `arguments` are the subcommand and its options; the archive
// and the inputs are added.
Report trace_and_run(torch::nn::Module& module, const Inputs& inputs, const Forward& forward, const Options& options,
                     std::vector<std::string> arguments) {
  const std::vector<std::string> names = names_of(inputs, options);
  std::vector<DynamicAxis> axes = axes_of(options);
  Inputs detached;
  for (const at::Tensor& input : inputs) {
    if (!input.defined()) {
      mismatch("an input is an undefined tensor",
               "leave it out, or use export_onnx_call for a forward that takes none");
    }
    detached.push_back(input.detach().cpu());
  }
  make_axes_non_negative(axes, examples_of(detached, names));
  const TracedModule traced = [&] {
    const EvalMode eval(module, options.training);
    return trace_at_sizes(module, detached, names, forward, axes);
  }();

  const bool kept = !options.archive.empty();
  const ScratchFolder scratch(kept ? options.archive : temporary_path("module.pt"));
  const std::string archive = scratch.file(kept ? base_name(options.archive) : "module.pt");
  const std::string example = scratch.file("inputs.pt");
  save(traced, archive, kept);
  save(detached, example);
  arguments.insert(arguments.begin() + 1, archive);
  arguments.insert(arguments.end(), {"--inputs", example});
  Report report = traced.report;
  report.notes = run_whence(options.command, arguments);
  warn_of_changed_buffers(traced.changed_buffers, report.notes);
  warn_of_data_sized_operators(traced.data_sized_operators, report.notes);
  if (kept) {
    AtomicFile file(options.archive);
    file.take(archive);
    file.commit();
  }
  return report;
}

// Refuses an archive path that is also another file's path. The command compares only its own files, and this library
// writes the archive.
void require_separate_archive(const std::string& path, const Options& options) {
  for (const std::string& other : {path, options.sidecar, options.report, options.converters}) {
    if (!same_file(other, options.archive)) continue;
    throw Error(Code::usage, "Options::archive and another option name the same file: " + other,
                "name another file in Options::archive", {.file = other, .stage = "record"});
  }
}

// Refuses options that only archives use: a module takes its tensors from the call and operators from this process.
void refuse_archive_options(const Options& options) {
  const std::pair<bool, const char*> set[] = {{!options.dynamic.empty(), "dynamic"},
                                              {!options.inputs.empty(), "inputs"},
                                              {!options.inputs_file.empty(), "inputs_file"},
                                              {!options.default_dtype.empty(), "default_dtype"},
                                              {!options.libraries.empty(), "libraries"}};
  for (const auto& [is_set, name] : set) {
    if (!is_set) continue;
    throw Error(Code::usage, std::string("Options::") + name + " applies to archives only, and a module was passed",
                "leave it out; a module uses the tensors of the call, dynamic_axes, and the dtypes and operators of "
                "this process",
                {.stage = "record"});
  }
}

// Turns all exceptions into Error, so that the library throws nothing else.
Report run(torch::nn::Module& module, const Inputs& inputs, const Forward& forward, const std::string& path,
           const Options& options, std::vector<std::string> arguments) {
  try {
    refuse_archive_options(options);
    require_separate_archive(path, options);
    return trace_and_run(module, inputs, forward, options, std::move(arguments));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(Code::internal, "recording failed: " + torch_message(error), "please report this with the module",
                {.stage = "record"});
  }
}

// Returns the arguments of `whence export` that correspond to `options`.
std::vector<std::string> export_arguments(const std::string& path, const Options& options) {
  std::vector<std::string> arguments = {"export", "-o", path, "--opset", std::to_string(options.opset)};
  const auto flag = [&](bool enabled, const char* name) {
    if (enabled) arguments.emplace_back(name);
  };
  const auto text = [&](const char* name, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {name, value});
  };
  const auto bytes = [&](const char* name, const std::optional<std::uint64_t>& value) {
    if (value) text(name, std::to_string(*value));
  };
  for (const auto& [input, named] : options.dynamic_axes) {
    if (!named.empty()) text("--dynamic", dynamic_argument(input, named));
  }
  text("--output-names", joined(options.output_names));
  text("--sidecar-out", options.sidecar);
  flag(options.annotate, "--annotate");
  flag(!options.optimize, "--no-optimize");
  flag(!options.fold, "--no-fold");
  if (options.unsupported_as_domain) text("--on-unsupported", "domain");
  flag(options.keep_bfloat16, "--keep-bfloat16");
  flag(options.weights_as_inputs, "--weights-as-inputs");
  flag(options.keep_initializers_as_inputs, "--keep-initializers-as-inputs");
  flag(options.external_data.always, "--external-data");
  flag(options.external_data.per_tensor, "--external-data-per-tensor");
  flag(options.external_data.overwrite, "--overwrite");
  bytes("--external-data-threshold", options.external_data.threshold);
  bytes("--external-data-alignment", options.external_data.alignment);
  text("--converters", options.converters);
  for (const std::string& kept : options.kept_operators) text("--keep-operator", kept);
  for (const auto& [domain, version] : options.custom_opsets) {
    text("--custom-opset", domain + "=" + std::to_string(version));
  }
  text("--functions", options.functions);
  text("--operators", options.operators);
  text("--report", options.report);
  return arguments;
}

}  // namespace

Report record(torch::nn::Module& module, const Inputs& inputs, const Forward& forward, const std::string& path,
              const Options& options, const char* torch_version) {
  check_torch_version(torch_version);
  check_layers_interposed();
  return run(module, inputs, forward, path, options, {"record", "-o", path});
}

Report export_onnx(torch::nn::Module& module, const Inputs& inputs, const Forward& forward, const std::string& path,
                   const Options& options, const char* torch_version) {
  check_torch_version(torch_version);
  check_layers_interposed();
  return run(module, inputs, forward, path, options, export_arguments(path, options));
}

void check_torch_version(const std::string& built_with) {
  if (built_with == TORCH_VERSION) return;
  throw Error(Code::needs_libtorch,
              "the program was built with LibTorch " + built_with + ", whence with LibTorch " TORCH_VERSION,
              "build both with one version: cmake -DTORCH_DIR=...", {.stage = "record"});
}

void refuse_input_count(std::size_t given, const std::vector<std::size_t>& accepted) {
  std::string counts;
  for (const std::size_t count : accepted) counts += (counts.empty() ? "" : " or ") + std::to_string(count);
  if (counts.empty()) {
    mismatch("forward cannot be called with only tensors",
             "use export_onnx_call or record_call with a function that calls the module");
  }
  mismatch(std::to_string(given) + " inputs were passed, forward takes " + counts,
           "pass the number of inputs that forward takes");
}

}  // namespace whence::native
