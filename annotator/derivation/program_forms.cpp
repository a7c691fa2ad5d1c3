#include "annotator/derivation/program_forms.h"

#include "annotator/exporter/export.h"
#include "annotator/exporter/filled_weights.h"

namespace whence::derivation {

std::vector<ProgramForm> forms_of(const Program& program) {
  Program filled = program;
  for (Parameter& parameter : filled.parameters) {
    if (parameter.persistent) parameter.data.bytes = Bytes::left_out(parameter.data.bytes.size());
  }
  filled = exporter::with_filled_weights(filled);
  exporter::ExportOptions options;
  options.unsupported_as_domain = true;
  const std::vector<exporter::ExportForm> wanted = {
      {exporter::default_opset, false},
      {exporter::default_opset, true},
      {.opset = exporter::default_opset, .simplify = false, .literal = true},
      {exporter::newest_opset, true},
      {exporter::oldest_opset, false}};
  std::vector<ProgramForm> forms;
  for (const exporter::ExportedForm& exported : exporter::export_forms(filled, options, wanted)) {
    forms.push_back({wanted[forms.size()].opset, exported.graph});
  }
  return forms;
}

}  // namespace whence::derivation
