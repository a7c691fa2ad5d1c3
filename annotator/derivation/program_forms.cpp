#include "annotator/derivation/program_forms.h"

#include <utility>

#include "annotator/derivation/mean_forms.h"
#include "annotator/exporter/export.h"
#include "annotator/exporter/filled_weights.h"
#include "annotator/program/tensor_values.h"

namespace whence::derivation {

namespace {

Program with_noise(const Program& program) {
  Program filled = program;
  for (Parameter& parameter : filled.parameters) {
    if (parameter.persistent) parameter.data.bytes = Bytes::left_out(parameter.data.bytes.size());
  }
  return exporter::with_filled_weights(filled);
}

bool has_all(const TensorData& data, double number) {
  const auto elements = program::Elements::of(data);
  for (std::size_t i = 0; elements && i < elements->size(); ++i) {
    if (elements->number(i) != number) return false;
  }
  return elements.has_value();
}

// Returns the program with the numbers of neutral parameters: zeros and ones; nullopt if there are none.
std::optional<Program> with_neutral_parameters(const Program& program, const Weights& weights) {
  Program neutral = program;
  bool has_any = false;
  for (Parameter& parameter : neutral.parameters) {
    const TensorData* const stored = weights.find(parameter.name);
    const bool fits = stored != nullptr && parameter.persistent && is_floating(stored->dtype) &&
                      stored->dtype == parameter.data.dtype && stored->shape == parameter.data.shape;
    if (!fits || !(has_all(*stored, 0) || has_all(*stored, 1))) continue;
    parameter.data.bytes = stored->bytes;
    parameter.persistent = false;
    has_any = true;
  }
  return has_any ? std::optional(std::move(neutral)) : std::nullopt;
}

}  // namespace

std::vector<ProgramForm> forms_of(const Program& program, const Weights& weights) {
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
  if (const auto neutral = with_neutral_parameters(program, weights)) {
    for (const exporter::ExportedForm& exported : exporter::export_forms(with_noise(*neutral), options, {wanted[0]}))
      forms.push_back({wanted[0].opset, exported.graph});
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
