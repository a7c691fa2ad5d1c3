#include "annotator/derivation/program_constants.h"

#include <cstring>
#include <optional>

#include "annotator/exporter/export.h"
#include "annotator/exporter/filled_weights.h"
#include "annotator/program/tensor_values.h"

namespace whence::derivation {
namespace {

// Digests the elements as single-precision numbers, in which a constant that was narrowed equals its source.
std::optional<std::pair<std::int64_t, std::uint64_t>> digest_of(const TensorData& data) {
  const auto elements = program::Elements::of(data);
  if (!elements) return {};
  std::uint64_t digest = 0;
  for (std::size_t i = 0; i < elements->size(); ++i) {
    const auto number = static_cast<float>(elements->number(i));
    std::uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    digest = digest * 0x9e3779b97f4a7c15U + bits + 1;
  }
  return std::pair{static_cast<std::int64_t>(elements->size()), digest};
}

}  // namespace

ProgramConstants::ProgramConstants(const Program& program, const Weights& weights) {
  for (const Constant& constant : program.constants) add(constant.data);
  // Larger weights stay noise: their bytes would be read once for each form.
  constexpr std::size_t max_bytes = std::size_t{1} << 20;
  Program filled = program;
  for (Parameter& parameter : filled.parameters) {
    const TensorData* const found = weights.find(parameter.name);
    const bool fits = found != nullptr && found->dtype == parameter.data.dtype && found->shape == parameter.data.shape;
    if (fits && found->bytes.size() <= max_bytes) parameter.data = *found;
    if (!parameter.persistent) add(parameter.data);
  }
  filled = exporter::with_filled_weights(filled);
  exporter::ExportOptions options;
  options.unsupported_as_domain = true;
  const std::vector<exporter::ExportForm> forms = {
      {exporter::default_opset, false},
      {exporter::default_opset, true},
      {.opset = exporter::default_opset, .simplify = false, .literal = true},
      {exporter::newest_opset, true},
      {exporter::oldest_opset, false}};
  for (const exporter::ExportedForm& form : exporter::export_forms(filled, options, forms)) add(*form.graph);
}

void ProgramConstants::add(const graph::Graph& graph) {
  for (const graph::Initializer& initializer : graph.initializers) {
    if (!initializer.parameter && !initializer.rearranged) add(initializer.data);
  }
  for (const graph::GraphNode& node : graph.nodes) {
    for (const graph::Attribute& attribute : node.attributes) {
      if (const auto* tensor = std::get_if<TensorData>(&attribute.value)) add(*tensor);
    }
    graph::for_each_body(node, [&](const graph::Graph& body) { add(body); });
  }
}

void ProgramConstants::add(const TensorData& constant) {
  if (const auto digest = digest_of(constant)) digests_.insert(*digest);
}

bool ProgramConstants::holds(const TensorData& tensor) const {
  const auto digest = digest_of(tensor);
  if (!digest) return false;
  if (digests_.contains(*digest)) return true;
  // A tensor of equal elements is a number that was expanded: zeros and ones without being a constant of the program.
  const auto elements = program::Elements::of(tensor);
  if (elements->size() == 0) return true;
  const double first = elements->number(0);
  for (std::size_t i = 1; i < elements->size(); ++i) {
    if (elements->number(i) != first) return false;
  }
  return first == 0 || first == 1 || digests_.contains(*digest_of(program::number_scalar(first, DType::float32)));
}

}  // namespace whence::derivation
