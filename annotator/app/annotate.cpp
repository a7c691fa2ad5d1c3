// Implements whence::annotate and whence::strip, also for files with whence's functions.
#include "whence/annotate.h"

#include <array>
#include <filesystem>
#include <utility>

#include "annotator/annotation/annotate.h"
#include "annotator/annotation/strip.h"
#include "annotator/app/counts.h"
#include "annotator/app/flat_model.h"
#include "annotator/app/function_choice.h"
#include "annotator/app/separate_files.h"
#include "annotator/checkpoint/checkpoint.h"
#include "annotator/functions/outline_file.h"
#include "annotator/onnx_file/onnx_rewrite.h"
#include "annotator/validation/validate.h"
#include "schema/files/files.h"
#include "schema/sidecar/sidecar.h"

namespace whence {
namespace {

using onnx_file::ModelOutput;
using onnx_file::ModelSource;

// Returns "model.whence.json" for "model.onnx", the name that `whence record` suggests.
std::string sidecar_beside(const std::string& model) {
  return std::filesystem::path(model).replace_extension(".whence.json").string();
}

// Returns the named sidecar, or else the sidecar next to the model; empty if there is none.
std::string sidecar_of(const std::string& model, const AnnotateOptions& options) {
  if (!options.sidecar.empty() || !options.from.empty() || !options.weights.empty()) return options.sidecar;
  const std::string guess = sidecar_beside(model);
  std::error_code ignored;  // an unreadable folder is reported when the model is opened
  return std::filesystem::exists(guess, ignored) ? guess : "";
}

annotation::AnnotateReport annotate_flat(const ModelSource& input, const ModelOutput& output,
                                         const std::string& sidecar, const AnnotateOptions& options,
                                         Diagnostics& notes) {
  if (!options.from.empty()) {
    const app::FlatModel before(options.from, output.path, notes);
    return unwrap(annotation::annotate_from_file(input, before.source(), output, options), notes);
  }
  if (!options.weights.empty()) {
    const std::vector<Parameter> parameters =
        checkpoint::parameters_of(checkpoint::read_checkpoint(options.weights, notes));
    const Place place{.file = options.weights, .stage = "annotate"};
    return unwrap(annotation::annotate_by_weights(input, parameters, place, output, options), notes);
  }
  if (sidecar.empty()) return unwrap(annotation::annotate_alone(input, output, options), notes);
  const Sidecar recorded = unwrap(read_sidecar(sidecar), notes);
  if (!recorded.complete) {
    notes.push_back(warning(Code::sidecar_mismatch,
                            "the sidecar is incomplete: its recording ended before the model did",
                            "record the model again", {.file = sidecar, .stage = "read"}));
  }
  return unwrap(annotation::annotate_file(input, recorded, output, options), notes);
}

// Returns a warning with the two commands that record a model.
Diagnostic no_module_warning(const std::string& model, const std::string& output) {
  const std::string sidecar = base_name(sidecar_beside(model));
  return warning(
      Code::wrong_kind,
      "no node is covered: the file's names and metadata do not name modules, and no other source was specified",
      "record the model: `with whence.record(\"" + sidecar +
          "\"): torch.export.export(model, args)` in Python, or `whence record model.pt -o " + sidecar +
          " --inputs inputs.npz` for an archive; then `whence annotate " + model + " --sidecar " + sidecar + " -o " +
          output + "`. If you have only its weights: --weights model.safetensors",
      {.file = model, .stage = "annotate"});
}

// Returns the minima that the output does not reach.
std::vector<std::string> shortfalls_of(const std::string& output, const validation::ValidateOptions& requirements,
                                       Diagnostics& notes) {
  std::vector<std::string> shortfalls;
  if (requirements.gates.minima.empty()) return shortfalls;
  for (const validation::Shortfall& each :
       unwrap(validation::validate_file(output, nullptr, requirements), notes).shortfalls) {
    shortfalls.push_back(each.message);
  }
  return shortfalls;
}

// Copies a file without adding anything.
void copy_unchanged(const std::string& input, const ModelOutput& output, Diagnostics& notes) {
  const onnx_file::OnnxSummary model = unwrap(onnx_file::read_onnx_summary(input), notes);
  onnx_file::NodeEditor no_edits;
  onnx_file::rewrite_file(input, output, no_edits, {}, onnx_file::data_files_of(model));
}

AnnotateReport to_report(const annotation::AnnotateReport& found) {
  AnnotateReport report;
  report.nodes = app::to_node_counts(found.nodes);
  report.renamed = found.renamed;
  report.changed = found.changed;
  const match::ParameterCounts& parameters = found.fit.parameters;
  report.parameters = {parameters.all, parameters.by_bytes, parameters.by_name, parameters.by_sketch,
                       parameters.by_shape};
  return report;
}

}  // namespace

AnnotateReport annotate(const std::string& model, const std::string& output_path, const AnnotateOptions& options) {
  const std::array<std::pair<const char*, bool>, 3> sources = {{{"--from", !options.from.empty()},
                                                                {"--sidecar", !options.sidecar.empty()},
                                                                {"--weights", !options.weights.empty()}}};
  std::string source_option;
  for (const auto& [name, is_given] : sources) {
    if (!is_given) continue;
    if (!source_option.empty()) {
      throw Error(Code::usage, source_option + " and " + name + " were both passed", "pass only one of them",
                  {.stage = "command line"});
    }
    source_option = name;
  }
  validation::ValidateOptions requirements;
  for (const std::string& text : options.minima) requirements.gates.minima.push_back(validation::parse_threshold(text));
  const std::string sidecar = sidecar_of(model, options);
  if (!options.value_pairs.empty() && sidecar.empty()) {
    throw Error(Code::usage, "--value-pairs was passed without a sidecar",
                "pass the sidecar that the pairs were made with", {.stage = "command line"});
  }
  ModelOutput output = app::model_output({{"the model", model},
                                          {"the sidecar", sidecar},
                                          {"--from", options.from},
                                          {"--weights", options.weights},
                                          {"--value-pairs", options.value_pairs}},
                                         {"--output", output_path}, app::InPlace::allowed, options.overwrite);
  Diagnostics notes;
  output.copy_data = options.copy_data;
  output.notes = &notes;
  const app::FlatModel flat(model, output_path, notes);
  const bool chosen = !options.functions.empty();
  const std::optional<FunctionChoice> choice = chosen ? app::parse_function_choice(options.functions) : flat.cut();
  AnnotateReport report;
  if (!choice) {
    report = to_report(annotate_flat(model, output, sidecar, options, notes));
  } else {
    const ScratchFolder scratch(output_path);
    ModelOutput annotated(scratch.file(base_name(output_path)));
    annotated.draft = true;
    report = to_report(annotate_flat(flat.source(), annotated, sidecar, options, notes));
    if (chosen || report.changed) {
      report.functions = unwrap(functions::outline_file({annotated.path, model}, output, *choice), notes);
    } else {
      copy_unchanged(model, output, notes);
    }
  }
  if (source_option.empty() && sidecar.empty() && report.nodes.total() > 0 && report.nodes.covered() == 0) {
    notes.push_back(no_module_warning(model, output_path));
  }
  report.shortfalls = shortfalls_of(output_path, requirements, notes);
  report.notes = std::move(notes);
  return report;
}

StripReport strip(const std::string& model, const std::string& output_path, const WeightFiles& weights) {
  ModelOutput output =
      app::model_output({{"the model", model}}, {"--output", output_path}, app::InPlace::allowed, weights.overwrite);
  Diagnostics notes;
  output.copy_data = weights.copy_data;
  output.notes = &notes;
  const app::FlatModel flat(model, output_path, notes);
  const annotation::StripReport found = unwrap(annotation::strip_file(flat.source(), output), notes);
  return {found.nodes, found.stripped, found.changed, std::move(notes)};
}

}  // namespace whence
