// Makes the reference when there is only the foreign file: the modules that its own names mention, without structure.
//   metadata        the namespace key of its exporter
//   initializers    "encoder.layer.0.query.weight" belongs to encoder.layer.0.query
//   node names      "/encoder/layer.0/query/MatMul", also where annotate --carry left them
#include <algorithm>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "annotator/match/file_structure.h"
#include "annotator/match/reference.h"
#include "annotator/match/scope_in_name.h"
#include "annotator/origin/carried_token.h"
#include "annotator/text/path_glob.h"
#include "schema/module_path.h"

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

// PyTorch's older exporter leaves a container whose forward is never called out of names: "/blocks/k/Gemm" of
// blocks.heads.k, where `heads` is a ModuleDict. Parameters have the complete path.
class LeftOutContainers {
 public:
  // `with_parameters`: modules that parameters are named after. `name_paths`: "/blocks/k".
  LeftOutContainers(const auto& with_parameters, const std::set<std::string_view>& name_paths) {
    for (std::string_view module : with_parameters) {
      for (; !module.empty(); module = module_around(module)) modules_[last_segment(module)].emplace(module);
    }
    for (std::string_view path : name_paths) {
      for (; !path.empty(); path = path.substr(0, path.rfind('/'))) named_.insert(module_of_path(path));
    }
  }

  // Returns the module that the path in a name means: with the containers that are left out, where parameters say so,
  // and nothing where it may be one module or another.
  std::optional<std::string> module_meant(const std::string& named) const {
    if (named.empty()) return named;
    if (const auto called_alike = modules_.find(last_segment(named)); called_alike != modules_.end()) {
      if (called_alike->second.contains(named)) return named;
      std::optional<std::string> meant;
      for (const std::string& module : called_alike->second) {
        if (!may_be(named, module)) continue;
        if (meant) return std::nullopt;
        meant = module;
      }
      if (meant) return meant;
    }
    const auto around = module_meant(std::string(module_around(named)));
    return around ? std::optional(joined_path(*around, last_segment(named))) : std::nullopt;
  }

 private:
  // True when `module` is `named` with containers put in that no name mentions.
  bool may_be(std::string_view named, const std::string& module) const {
    if (module.size() <= named.size() || named_.contains(module)) return false;
    const std::vector<std::string_view> parts = text::path_segments(named);
    auto part = parts.begin();
    for (const std::string_view segment : text::path_segments(module)) {
      if (part != parts.end() && segment == *part) {
        ++part;
      } else if (named_.contains(module.substr(0, static_cast<std::size_t>(segment.end() - module.data())))) {
        return false;
      }
    }
    return part == parts.end();
  }

  std::map<std::string, std::set<std::string>> modules_;  // with parameters, or around such; by their last segments
  std::set<std::string> named_;                           // modules that names mention
};

}  // namespace

Reference make_reference_of_names(const onnx_file::OnnxSummary& model) {
  Reference reference;
  ScopeTree tree(reference.scopes);
  tree.of("", 0);
  for (const onnx_file::OnnxNode* node : nodes_with_functions(model)) {
    if (const auto module = module_of(node->metadata)) tree.of(*module, 0);
  }
  std::vector<std::pair<const onnx_file::OnnxTensor*, std::string>> parameters;  // each with its module
  for (const onnx_file::OnnxTensor& tensor : model.graph.initializers) {
    if (!looks_like_parameter(tensor.name)) continue;
    parameters.emplace_back(&tensor, std::string(module_around(without_fusion(tensor.name))));
  }
  const std::set<std::string_view> paths = called_paths(model);
  const LeftOutContainers containers(std::views::values(parameters), paths);
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
