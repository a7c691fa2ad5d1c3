#include "annotator/app/attest.h"

#include <optional>
#include <set>

#include "annotator/app/fitting_sidecar.h"
#include "annotator/metadata/attribution.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::app {

using derivation::FileTensor;

AttestReport attest(const std::string& model_path, const AttestOptions& options) {
  AttestReport report;
  const onnx_file::OnnxSummary model = unwrap(onnx_file::read_onnx_summary(model_path), report.notes);
  const auto weights = derivation::Weights::read(options.weights, report.notes);
  const std::optional<std::string> path = options.sidecar.empty() ? std::nullopt : std::optional(options.sidecar);
  const std::optional<Sidecar> sidecar = read_sidecar_if_given(path, report.notes);
  std::optional<derivation::ProgramConstants> constants;
  if (sidecar) constants.emplace(sidecar->program, weights);
  const derivation::FileTensors tensors(model);
  derivation::Contents contents(model, model_path);
  std::vector<derivation::Derivation> derivations =
      derivation::derive(tensors, contents, weights, constants ? &*constants : nullptr);
  for (std::size_t i = 0; i < derivations.size(); ++i) {
    const FileTensor& tensor = tensors.all()[i];
    std::set<std::string> modules;
    for (const derivation::Use& use : tensor.uses) {
      const metadata::Attribution origin = metadata::attribution_of(*use.node, nullptr);
      modules.insert(origin.modules.begin(), origin.modules.end());
    }
    const DType dtype = from_onnx(tensor.tensor->data_type);
    report.tensors.push_back({std::string(tensor.name),
                              std::string(name_of(dtype)),
                              tensor.tensor->dims,
                              std::move(derivations[i]),
                              {modules.begin(), modules.end()}});
  }
  return report;
}

}  // namespace whence::app
