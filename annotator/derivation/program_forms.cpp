#include "annotator/derivation/program_forms.h"

#include <utility>

#include "annotator/derivation/mean_forms.h"
#include "annotator/exporter/export.h"
#include "annotator/exporter/filled_weights.h"

namespace whence::derivation {

namespace {

Program with_noise(const Program& program) {
  Program filled = program;
  for (Parameter& parameter : filled.parameters) {
    if (parameter.persistent) parameter.data.bytes = Bytes::left_out(parameter.data.bytes.size());
  }
  return exporter::with_filled_weights(filled);
}

}  // namespace

std::vector<ProgramForm> forms_of(const Program& program) {
  const Program filled = with_noise(program);
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
  const std::size_t exported_forms = forms.size();
  for (std::size_t i = 0; i < exported_forms; ++i) {
    if (auto graph = with_means(*forms[i].graph))
      forms.push_back({forms[i].opset, std::make_shared<const graph::Graph>(std::move(*graph))});
  }
  return forms;
}

std::optional<graph::Graph> written_out(const Program& program) {
  exporter::ExportOptions options;
  options.unsupported_as_domain = true;
  options.simplify = false;
  options.fold = false;
  Result<graph::Graph> graph = exporter::export_program(with_noise(program), options);
  return graph ? std::optional(std::move(*graph)) : std::nullopt;
}

}  // namespace whence::derivation
