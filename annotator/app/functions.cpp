// whence::make_functions, inline_functions and extract_module: by paths.
#include "whence/functions.h"

#include "annotator/app/separate_files.h"
#include "annotator/functions/outline_file.h"
#include "schema/result.h"

namespace whence {
namespace {

onnx_file::ModelOutput output_beside(const std::string& model, const std::string& output, app::InPlace in_place,
                                     bool overwrite) {
  return app::model_output({{"the model", model}}, {"--output", output}, in_place, overwrite);
}

}  // namespace

FunctionsReport make_functions(const std::string& model, const std::string& output, const FunctionChoice& choice,
                               bool overwrite) {
  Diagnostics notes;
  FunctionsReport report = unwrap(
      functions::outline_file(model, output_beside(model, output, app::InPlace::allowed, overwrite), choice), notes);
  report.notes = std::move(notes);
  return report;
}

InlineReport inline_functions(const std::string& model, const std::string& output, bool all, bool overwrite) {
  Diagnostics notes;
  InlineReport report =
      unwrap(functions::inline_file(model, output_beside(model, output, app::InPlace::allowed, overwrite), all), notes);
  report.notes = std::move(notes);
  return report;
}

ExtractReport extract_module(const std::string& model, const std::string& output, const ExtractOptions& options,
                             bool overwrite) {
  Diagnostics notes;
  ExtractReport report = unwrap(
      functions::extract_file(model, output_beside(model, output, app::InPlace::refused, overwrite), options), notes);
  report.notes = std::move(notes);
  return report;
}

}  // namespace whence
