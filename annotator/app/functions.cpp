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

// The report of a use, with its notes.
template <class Report>
Report with_notes(Result<Report> result) {
  Diagnostics notes;
  Report report = unwrap(std::move(result), notes);
  report.notes = std::move(notes);
  return report;
}

}  // namespace

FunctionsReport make_functions(const std::string& model, const std::string& output, const FunctionChoice& choice,
                               bool overwrite) {
  return with_notes(
      functions::outline_file(model, output_beside(model, output, app::InPlace::allowed, overwrite), choice));
}

InlineReport inline_functions(const std::string& model, const std::string& output, bool all, bool overwrite) {
  return with_notes(functions::inline_file(model, output_beside(model, output, app::InPlace::allowed, overwrite), all));
}

ExtractReport extract_module(const std::string& model, const std::string& output, const ExtractOptions& options,
                             bool overwrite) {
  return with_notes(
      functions::extract_file(model, output_beside(model, output, app::InPlace::refused, overwrite), options));
}

}  // namespace whence
