#include "annotator/app/attest.h"

#include <set>
#include <utility>

#include "annotator/app/derived_file.h"
#include "annotator/metadata/attribution.h"
#include "schema/sidecar/sidecar.h"

namespace whence::app {

using derivation::FileTensor;

AttestReport attest(const std::string& model_path, const AttestOptions& options) {
  AttestReport report;
  DerivedFile file = derive_file(model_path, {options.weights, options.sidecar}, report.notes);
  std::vector<derivation::NodeVerdict> verdicts;
  if (!options.sidecar.empty()) {
    const Program program = unwrap(read_sidecar(options.sidecar), report.notes).program;
    verdicts = derivation::node_verdicts(*file.model, program, *file.tensors, file.derivations);
  }
  for (std::size_t i = 0; i < file.derivations.size(); ++i) {
    const FileTensor& tensor = file.tensors->all()[i];
    std::set<std::string> modules;
    for (const derivation::Use& use : tensor.uses) {
      const metadata::Attribution origin = metadata::attribution_of(*use.node, nullptr);
      modules.insert(origin.modules.begin(), origin.modules.end());
    }
    const DType dtype = from_onnx(tensor.tensor->data_type);
    report.tensors.push_back({std::string(tensor.name),
                              std::string(name_of(dtype)),
                              tensor.tensor->dims,
                              std::move(file.derivations[i]),
                              {modules.begin(), modules.end()}});
  }
  const auto nodes = onnx_file::all_nodes(file.model->graph);
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    const onnx_file::OnnxNode& node = *nodes[i];
    const std::string_view name = node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name;
    report.nodes.push_back(
        {std::string(name), std::string(node.op_type), verdicts[i], metadata::attribution_of(node, nullptr).modules});
  }
  return report;
}

}  // namespace whence::app
