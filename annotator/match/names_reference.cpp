// Builds the reference when there is only the foreign file: the modules that its names mention, without structure.
//   metadata        the namespace key of its exporter
//   initializers    "encoder.layer.0.query.weight" belongs to encoder.layer.0.query
//   node names      "/encoder/layer.0/query/MatMul", also in the doc_strings of annotate --carry
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "annotator/match/file_structure.h"
#include "annotator/match/name_paths.h"
#include "annotator/match/reference.h"
#include "schema/module_path.h"

namespace whence::match {

namespace {

bool looks_like_parameter(std::string_view name) {
  constexpr std::string_view endings[] = {".weight", ".bias", ".gamma", ".beta", ".running_mean", ".running_var"};
  for (const std::string_view ending : endings) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

}  // namespace

Reference make_reference_of_names(const onnx_file::OnnxSummary& model) {
  Reference reference;
  ScopeTree tree(reference.scopes);
  tree.of("", 0);
  for (const onnx_file::OnnxNode* node : nodes_with_functions(model)) {
    if (const auto module = module_of(*node)) tree.of(*module, 0);
  }
  std::vector<std::pair<const onnx_file::OnnxTensor*, std::string>> parameters;  // each with its module
  for (const onnx_file::OnnxTensor& tensor : model.graph.initializers) {
    if (!looks_like_parameter(tensor.name)) continue;
    parameters.emplace_back(&tensor, std::string(module_around(without_fusion(tensor.name))));
  }
  std::set<std::string_view> names;
  for (const onnx_file::OnnxTensor& tensor : model.graph.initializers) names.insert(without_fusion(tensor.name));
  std::set<std::string> modules;
  for (const auto& [tensor, module] : parameters) modules.insert(module);
  const std::set<std::string_view> paths = called_paths(model, names);
  const OmittedContainers containers(modules, paths);
  for (const std::string_view path : paths) {
    const auto module = containers.module_meant(module_of_path(path));
    if (module) reference.scopes[tree.of(*module, 0)].name_path = std::string(path);
  }
  for (const auto& [tensor, module] : parameters) {
    ReferenceUnit unit;
    unit.scope = tree.of(module, 0);
    ReferenceParameter parameter;
    parameter.names.emplace_back(tensor->name);
    parameter.dims = tensor->dims;
    parameter.units.push_back(reference.units.add(std::move(unit)));
    reference.parameters.add(std::move(parameter));
  }
  reference.index_units();
  return reference;
}

}  // namespace whence::match
