// Implements whence::make_functions, inline_functions and extract_module.
#include "whence/functions.h"

#include "annotator/app/separate_files.h"
#include "annotator/functions/outline_file.h"
#include "annotator/metadata/attribution.h"
#include "schema/result.h"

namespace whence {
namespace {

enum class ReadsOrigins : bool { no, yes };

// Returns the report of write(output), with all notes.
template <class Write>
auto written(const std::string& model, const std::string& path, app::InPlace in_place, const WeightFiles& weights,
             const Write& write, ReadsOrigins reads_origins = ReadsOrigins::yes) {
  Diagnostics notes;
  onnx_file::ModelOutput output =
      app::model_output({{"the model", model}}, {"--output", path}, in_place, weights.overwrite);
  output.copy_data = weights.copy_data;
  output.notes = &notes;
  if (reads_origins == ReadsOrigins::yes) {
    metadata::note_origins(unwrap(onnx_file::read_onnx_summary(model), notes), notes);
  }
  auto report = unwrap(write(output), notes);
  report.notes = std::move(notes);
  return report;
}

}  // namespace

FunctionsReport make_functions(const std::string& model, const std::string& output, const FunctionChoice& choice,
                               const WeightFiles& weights) {
  return written(model, output, app::InPlace::allowed, weights,
                 [&](const auto& to) { return functions::outline_file(model, to, choice); });
}

InlineReport inline_functions(const std::string& model, const std::string& output, bool all,
                              const WeightFiles& weights) {
  return written(
      model, output, app::InPlace::allowed, weights,
      [&](const auto& to) { return functions::inline_file(model, to, all); }, ReadsOrigins::no);
}

ExtractReport extract_module(const std::string& model, const std::string& output, const ExtractOptions& options,
                             const WeightFiles& weights) {
  return written(model, output, app::InPlace::refused, weights,
                 [&](const auto& to) { return functions::extract_file(model, to, options); });
}

}  // namespace whence
