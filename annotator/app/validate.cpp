// Implements whence::validate.
#include "whence/validate.h"

#include <optional>

#include "annotator/app/counts.h"
#include "annotator/app/validation_of.h"
#include "annotator/validation/problems.h"
#include "annotator/validation/validation_text.h"
#include "schema/sidecar/sidecar.h"

namespace whence {

validation::Validation app::validation_of(const std::string& model, const ValidateOptions& options,
                                          Diagnostics& notes) {
  validation::ValidateOptions room_options;
  for (const std::string& text : options.minima) room_options.gates.minima.push_back(validation::parse_threshold(text));
  room_options.gates.required = options.required;
  room_options.gates.baseline = options.baseline;
  room_options.gates.attested = options.attested;
  room_options.allowed = options.allowed;
  for (const std::string& text : options.tolerances) {
    room_options.tolerances.push_back(validation::parse_tolerance(text));
  }
  room_options.full = options.full;
  room_options.before = options.conformance;
  std::optional<Sidecar> sidecar;
  if (!options.sidecar.empty()) sidecar = unwrap(read_sidecar(options.sidecar), notes);
  validation::Validation found =
      unwrap(validation::validate_file(model, sidecar ? &sidecar->program : nullptr, room_options), notes);
  metadata::note_origins(found.coverage.by_exporter, found.nodes, model, notes);
  return found;
}

ValidationReport validate(const std::string& model, const ValidateOptions& options) {
  ValidationReport report;
  const validation::Validation found = app::validation_of(model, options, report.notes);
  report.clean = found.clean();
  report.nodes = app::to_node_counts(found.coverage.all);
  for (const validation::Problem& problem : validation::problems_of(found)) {
    report.problems.push_back({problem.rule->code, problem.subject, problem.message});
  }
  report.json = validation::to_json(found);
  return report;
}

}  // namespace whence
