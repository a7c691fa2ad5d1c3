#include "annotator/derivation/program_forms.h"

#include <utility>

#include "annotator/derivation/mean_forms.h"
#include "annotator/exporter/export.h"
#include "annotator/exporter/filled_weights.h"
#include "annotator/program/tensor_values.h"

namespace whence::derivation {

namespace {

// Returns the checkpoint's tensor for a parameter; null if it is of another type or other sizes.
const TensorData* stored(const Parameter& parameter, const Weights& weights) {
  const TensorData* const found = weights.find(parameter.name);
  const bool fits = found != nullptr && found->dtype == parameter.data.dtype && found->shape == parameter.data.shape;
  return fits ? found : nullptr;
}

// Integers of a checkpoint are indices, which decide what the program computes.
Program with_noise(const Program& program, const Weights* weights) {
  Program filled = program;
  for (Parameter& parameter : filled.parameters) {
    if (!parameter.persistent) continue;
    const bool is_index = weights != nullptr && !is_floating(parameter.data.dtype);
    const TensorData* const known = is_index ? stored(parameter, *weights) : nullptr;
    parameter.data.bytes = known != nullptr ? known->bytes : Bytes::left_out(parameter.data.bytes.size());
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
    const TensorData* const known = stored(parameter, weights);
    const bool is_number = known != nullptr && parameter.persistent && is_floating(known->dtype);
    if (!is_number || !(has_all(*known, 0) || has_all(*known, 1))) continue;
    parameter.data.bytes = known->bytes;
    parameter.persistent = false;
    has_any = true;
  }
  return has_any ? std::optional(std::move(neutral)) : std::nullopt;
}

}  // namespace

std::vector<ProgramForm> forms_of(const Program& program, const Weights& weights) {
  const Program filled = with_noise(program, &weights);
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
    for (const exporter::ExportedForm& exported :
         exporter::export_forms(with_noise(*neutral, &weights), options, {wanted[0]}))
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
  Result<graph::Graph> graph = exporter::export_program(with_noise(program, nullptr), options);
  return graph ? std::optional(std::move(*graph)) : std::nullopt;
}

}  // namespace whence::derivation
