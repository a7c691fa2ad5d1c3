// Makes the reference when there is only the foreign file: the modules that its own names mention, without structure.
//   metadata        the namespace key of its exporter
//   initializers    "encoder.layer.0.query.weight" belongs to encoder.layer.0.query
//   node names      "/encoder/layer.0/query/MatMul", also where annotate --carry left them
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "annotator/match/file_structure.h"
#include "annotator/match/reference.h"
#include "annotator/match/scope_in_name.h"
#include "annotator/origin/carried_token.h"

namespace whence::match {

std::string module_of_path(std::string_view name_path) {
  if (!name_path.starts_with('/')) return "";
  std::string path, last;
  name_path.remove_prefix(1);
  while (!name_path.empty()) {
    const std::size_t slash = std::min(name_path.find('/'), name_path.size());
    std::string segment(name_path.substr(0, slash));
    name_path.remove_prefix(std::min(slash + 1, name_path.size()));
    // All of it, "/down.0/down.0.1", or what comes after its containers: "/backbone.body/body.2".
    for (const std::string& repeated : {last, last.substr(last.rfind('.') + 1)}) {
      if (repeated.empty() || !segment.starts_with(repeated + ".")) continue;
      path.resize(path.size() - repeated.size());
      path += segment;
      last = std::exchange(segment, "");
      break;
    }
    if (segment.empty()) continue;
    path += (path.empty() ? "" : ".") + segment;
    last = std::move(segment);
  }
  return path;
}

namespace {

bool looks_like_parameter(std::string_view name) {
  constexpr std::string_view endings[] = {".weight", ".bias", ".gamma", ".beta", ".running_mean", ".running_var"};
  for (const std::string_view ending : endings) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

// ONNX Runtime puts the fusion and the operand's role before the name of an initializer that it computes anew:
// "ConvMulFusion_W_encoder.conv.weight".
std::string_view without_fusion(std::string_view name) {
  constexpr std::string_view mark = "Fusion_";
  constexpr std::string_view roles[] = {"W_", "B_", "Mul_B_", "Add_B_", "BN_B_"};
  const std::size_t at = name.substr(0, name.find('.')).find(mark);
  if (at == std::string_view::npos) return name;
  name.remove_prefix(at + mark.size());
  for (const std::string_view role : roles) {
    if (name.starts_with(role)) return name.substr(role.size());
  }
  return name;
}

// The modules' paths in names of nodes and values, without those of second and later calls: where "/att/v" is there and
// no parameter is called "att.v_1.weight", "/att/v_1" is a call of att.v.
std::set<std::string_view> called_paths(const onnx_file::OnnxSummary& model) {
  const ScopeReader reader(model);
  std::set<std::string_view> paths;
  for (const onnx_file::OnnxNode* node : nodes_with_functions(model)) {
    for (const std::string_view name : {node->name, node->outputs.empty() ? std::string_view() : node->outputs[0],
                                        origin::token_in(node->doc_string).value_or(origin::CarriedToken{}).name}) {
      if (!name.starts_with('/')) continue;
      const ScopeInName found = reader.read(name);
      if (found.has_operator) paths.insert(found.path);
    }
  }
  std::set<std::string_view> parameters;
  for (const onnx_file::OnnxTensor& tensor : model.graph.initializers) parameters.insert(without_fusion(tensor.name));
  std::set<std::string_view> called;
  for (const std::string_view path : paths) {
    const bool again = std::ranges::any_of(first_calls(path), [&](const auto& first) { return paths.contains(first); });
    const std::string prefix = module_of_path(path) + ".";
    const auto parameter = parameters.lower_bound(prefix);
    if (!again || (parameter != parameters.end() && parameter->starts_with(prefix))) called.insert(path);
  }
  return called;
}

}  // namespace

Reference make_reference_of_names(const onnx_file::OnnxSummary& model) {
  Reference reference;
  ScopeTree tree(reference.scopes);
  tree.of("", 0);
  for (const onnx_file::OnnxNode* node : nodes_with_functions(model)) {
    if (const auto module = module_of(node->metadata)) tree.of(*module, 0);
  }
  for (const std::string_view path : called_paths(model)) {
    const ScopeIndex scope = tree.of(module_of_path(path), 0);
    reference.scopes[scope].name_path = std::string(path);
  }
  for (const onnx_file::OnnxTensor& tensor : model.graph.initializers) {
    if (!looks_like_parameter(tensor.name)) continue;
    ReferenceUnit unit;
    const std::string_view name = without_fusion(tensor.name);
    unit.scope = tree.of(std::string(name.substr(0, name.rfind('.'))), 0);
    ReferenceParameter parameter;
    parameter.names.emplace_back(tensor.name);
    parameter.dims = tensor.dims;
    parameter.units.push_back(reference.units.add(std::move(unit)));
    reference.parameters.add(std::move(parameter));
  }
  reference.index_units();
  return reference;
}

}  // namespace whence::match
