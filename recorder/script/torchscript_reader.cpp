// Reads a TorchScript archive into a Program: the entry point through which the command calls this library.
#include <cstdlib>
#include <variant>

#include <torch/version.h>

#include "recorder/base/torch_error.h"
#include "recorder/detection/operators.h"
#include "recorder/inputs/example_inputs.h"
#include "recorder/script/composite.h"
#include "recorder/script/dropped_writes.h"
#include "recorder/script/evaluator.h"
#include "recorder/script/restore.h"
#include "recorder_abi.h"
#include "schema/recorder_api.h"
#include "schema/tensor_digests.h"

namespace whence::recorder::script {

namespace {

using Evaluated = std::variant<Program, SizeFailure>;

Evaluated evaluate(archive::Archive& archive, const ReadOptions& options, int attempt, Diagnostics& notes,
                   const std::vector<int>& dropped_runs = {}) {
  Program program;
  archive::ModuleTree tree(archive, program);
  inputs::ExampleInputs inputs = inputs::make_inputs(archive, options, attempt);
  for (const int run : dropped_runs) inputs::drop_run(inputs, run);
  if (!options.dynamic.empty() && !inputs.available) {
    throw Error(Code::no_example_inputs, "dynamic axes need example inputs, and the archive holds none",
                "pass one for each argument: --input 'NAME=float32[1,3,224,224]'",
                {.file = options.path, .stage = "run"});
  }
  Evaluator evaluator(program, tree, inputs);
  if (auto failure = evaluator.run(archive.module())) return *std::move(failure);
  if (const std::vector<int> misleading = evaluator.misleading_runs(); !misleading.empty()) {
    std::vector<int> more = dropped_runs;
    more.insert(more.end(), misleading.begin(), misleading.end());
    return evaluate(archive, options, attempt, notes, more);
  }
  if (auto failure = evaluator.check_distant_runs()) return *std::move(failure);
  notes = evaluator.notes();
  return program;
}

// Adapts the program of a live C++ module. Removes Python's namespace from classes that have none in C++, and all
// references to an archive that is not kept. Assumes that no size is below the least that was traced (1 if forward
// accepts that): a C++ module may crash at smaller sizes.
void apply_live_mark(Program& program, const std::optional<LiveMark>& live) {
  if (!live) return;
  constexpr std::string_view python_main = "__main__.";
  for (Module& module : program.modules) {
    if (module.type.starts_with(python_main)) module.type.erase(0, python_main.size());
  }
  for (const SymbolId id : program.symbols.keys()) {
    if (program.symbols[id].kind != SymbolKind::axis) continue;
    const auto least = live->least.find(program.symbols[id].name);
    const std::int64_t size = least == live->least.end() ? 1 : least->second;
    whence::assume(program, {{{Size::symbol(id), Relation::at_least, size}}});
  }
  if (live->kept) return;
  program.source = {"live", "", 0, ""};
  for (Parameter& parameter : program.parameters) parameter.member.clear();
}

// Tries several second sizes: it is unknown which ones the model accepts. If all of them fail, the model requires a
// fixed size.
Evaluated evaluate_at_some_size(archive::Archive& archive, const ReadOptions& options, Diagnostics& notes) {
  for (int attempt = 0;; ++attempt) {
    Evaluated evaluated = evaluate(archive, options, attempt, notes);
    if (std::holds_alternative<Program>(evaluated) || attempt + 1 == inputs::size_attempts) return evaluated;
  }
}

Diagnostic tie_warning(const inputs::Tie& tie) {
  return warning(Code::baked_size,
                 "the model did not run with different sizes '" + tie.kept + "' and '" + tie.other + "': both are '" +
                     tie.kept + "' in the file",
                 "give the two axes one name", {.stage = "run"});
}

// Returns the ties to try. Axes with different names may need one size (a batch and its lengths). Two axes of equal
// size in the example are tied if the model then gets further than without the tie, pair by pair, until it runs. If no
// single pair helps, two pairs are tried at once: one operation reads both states of an LSTM. Each try runs the model a
// few times, so their number is limited. With dozens of separately named axes, the first error tells the user what to
// do.
std::vector<std::vector<inputs::Tie>> ties_to_try(archive::Archive& archive, const ReadOptions& options) {
  constexpr std::size_t most = 64;
  const std::vector<inputs::Tie> ties = inputs::possible_ties(inputs::make_inputs(archive, options, 0));
  std::vector<std::vector<inputs::Tie>> result;
  for (const inputs::Tie& tie : ties) result.push_back({tie});
  for (std::size_t i = 0; i < ties.size() && result.size() < most; ++i) {
    for (std::size_t j = i + 1; j < ties.size(); ++j) result.push_back({ties[i], ties[j]});
  }
  if (result.size() > most) result.resize(most);
  return result;
}

Program evaluate_with_ties(archive::Archive& archive, ReadOptions options, Diagnostics& notes) {
  Evaluated evaluated = evaluate_at_some_size(archive, options, notes);
  if (auto* program = std::get_if<Program>(&evaluated)) return std::move(*program);
  const SizeFailure& first = std::get<SizeFailure>(evaluated);
  std::size_t reached = first.reached;
  std::vector<inputs::Tie> tied;
  for (;;) {
    std::vector<inputs::Tie> better;
    for (const std::vector<inputs::Tie>& ties : ties_to_try(archive, options)) {
      if (ties.size() > 1 && !better.empty()) break;
      ReadOptions with = options;
      for (const inputs::Tie& tie : ties) inputs::apply_tie(with.dynamic, tie);
      Evaluated with_ties = evaluate_at_some_size(archive, with, notes);
      if (auto* program = std::get_if<Program>(&with_ties)) {
        tied.insert(tied.end(), ties.begin(), ties.end());
        for (const inputs::Tie& each : tied) notes.push_back(tie_warning(each));
        return std::move(*program);
      }
      const SizeFailure& failure = std::get<SizeFailure>(with_ties);
      if (failure.reached <= reached) continue;
      reached = failure.reached;
      better = ties;
    }
    if (better.empty()) throw Error(first.diagnostics);
    for (const inputs::Tie& tie : better) inputs::apply_tie(options.dynamic, tie);
    tied.insert(tied.end(), better.begin(), better.end());
  }
}

archive::Archive open_archive(const ReadOptions& options) {
  volatile std::sig_atomic_t unobserved = 0;
  volatile std::sig_atomic_t& reading = options.reading != nullptr ? *options.reading : unobserved;
  const Restore done(reading);
  reading = 1;
  return archive::Archive(options.path);
}

Program read(const ReadOptions& options, Diagnostics& notes) {
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(static_cast<at::ScalarType>(to_scalar_type(options.default_dtype))));
  const detection::DetectionOperators detection_operators;  // must outlive the archive
  archive::Archive archive = open_archive(options);
  if (!archive.module().find_method("forward")) {
    throw Error(Code::wrong_kind, "the module has no forward method",
                "save a module whose forward was traced or scripted", {.file = options.path, .stage = "read"});
  }
  if (options.run) archive::refuse_side_effects(archive);
  Program program = evaluate_with_ties(archive, options, notes);
  if (auto dropped = dropped_writes(options.path, program)) notes.push_back(std::move(*dropped));
  const auto file = MappedFile::open(options.path);
  program.source = {"torchscript", base_name(options.path), file->size(),
                    options.digests ? digest_of_file(options.path) : ""};
  apply_live_mark(program, archive.live());
  program.producer = "whence " WHENCE_VERSION ", PyTorch " TORCH_VERSION;
  if (options.digests) compute_digests(program);
  return program;
}

bool read_torchscript(const ReadOptions& options, Program& program, Diagnostics& diagnostics) {
  try {
    program = read(options, diagnostics);
    return true;
  } catch (const Error& error) {
    diagnostics = error.diagnostics();
  } catch (const std::exception& error) {
    diagnostics.push_back({Code::internal,
                           Severity::error,
                           "unexpected failure: " + torch_message(error),
                           {.file = options.path, .stage = "read"},
                           "please report this with the archive",
                           1,
                           {}});
  }
  return false;
}

void operator_schemas(std::vector<std::string>& schemas) {
  for (const auto& op : torch::jit::getAllOperators()) schemas.push_back(toString(op->schema()));
}

}  // namespace

}  // namespace whence::recorder::script

extern "C" __attribute__((visibility("default"))) const whence::RecorderApi* whence_recorder() {
  static const whence::RecorderApi api{whence::recorder_abi, TORCH_VERSION, &whence::recorder::script::read_torchscript,
                                       &whence::recorder::script::trace_composite,
                                       &whence::recorder::script::operator_schemas};
  return &api;
}
