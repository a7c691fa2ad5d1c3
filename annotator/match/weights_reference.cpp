// Makes the reference from a checkpoint: the modules that own parameters, and the modules around them. The file's names
// add modules without parameters, for instance activations. Their paths may begin with a wrapper that the parameters'
// names lack: "/bert/encoder/..." for "encoder....".
#include <algorithm>
#include <ranges>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "annotator/match/file_structure.h"
#include "annotator/match/name_paths.h"
#include "annotator/match/reference.h"
#include "schema/module_path.h"
#include "schema/parse_number.h"
#include "schema/sort_unique.h"

namespace whence::match {
namespace {

// Returns the path that exporters write if containers are not called: "/encoder/layer.0/query" for
// "encoder.layer.0.query".
std::string usual_name_path(std::string_view module) {
  std::string path;
  std::string_view rest = module;
  while (!rest.empty()) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view segment = rest.substr(0, dot);
    path += is_digits(segment) && !path.empty() ? '.' : '/';
    path += segment;
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
  return path;
}

// Finds the module that reads a parameter. torch.nn.MultiheadAttention never calls its out_proj: it reads the weights
// of out_proj itself.
class Owners {
 public:
  explicit Owners(const std::vector<Parameter>& parameters) {
    for (const Parameter& each : parameters) {
      if (last_segment(each.name) == "in_proj_weight") attentions_.insert(std::string(module_around(each.name)));
    }
  }
  std::string of(std::string_view parameter) const {
    std::string module(module_around(parameter));
    // torch.nn.utils.parametrize: the module computes its weight from this parameter.
    if (const std::size_t at = module.find("parametrizations.");
        at == 0 || (at != std::string::npos && module[at - 1] == '.'))
      module.resize(at == 0 ? 0 : at - 1);
    const std::string around(module_around(module));
    return last_segment(module) == "out_proj" && attentions_.contains(around) ? around : module;
  }

 private:
  std::set<std::string> attentions_;
};

// The wrapper at the beginning of the file's paths, "bert", or, with `added`, of the parameters' names.
struct Wrapper {
  std::string path;
  bool added = false;

  // Returns the checkpoint's name of a module in the file's paths; nullopt for a module outside the wrapper.
  std::optional<std::string> module(const std::string& named) const {
    if (path.empty()) return named;
    if (added) return joined_path(path, named);
    if (named == path) return "";
    if (!named.starts_with(path + ".")) return std::nullopt;
    return named.substr(path.size() + 1);
  }
};

// Returns the wrapper with which most of the file's paths are modules of the checkpoint.
Wrapper wrapper_of(const std::set<std::string>& named, const std::set<std::string>& modules) {
  std::vector<Wrapper> candidates = {{}};
  const auto add = [&](const std::set<std::string>& paths, bool added) {
    std::set<std::string> beginnings;
    for (const std::string& path : paths) {
      const std::size_t first = path.find('.');
      if (first == std::string::npos) continue;
      beginnings.insert(path.substr(0, first));
      beginnings.insert(path.substr(0, path.find('.', first + 1)));
    }
    for (const std::string& each : beginnings) candidates.push_back({each, added});
  };
  add(named, false);
  add(modules, true);
  Wrapper best;
  std::size_t max_known = 0;
  for (const Wrapper& each : candidates) {
    const auto known = static_cast<std::size_t>(std::ranges::count_if(named, [&](const std::string& path) {
      const auto module = each.module(path);
      return module && !module->empty() && modules.contains(*module);
    }));
    if (known > max_known) {
      max_known = known;
      best = each;
    }
  }
  return best;
}

// Returns today's name of a LayerNorm parameter in old BERT checkpoints; empty for other parameters.
std::string modern_name(const std::string& name) {
  const std::string last = last_segment(name);
  if (last == "gamma") return joined_path(module_around(name), "weight");
  if (last == "beta") return joined_path(module_around(name), "bias");
  return "";
}

std::vector<std::string> names_of(const Parameter& parameter) {
  std::vector<std::string> names = {parameter.name};
  names.insert(names.end(), parameter.aliases.begin(), parameter.aliases.end());
  if (std::string modern = modern_name(parameter.name); !modern.empty()) names.push_back(std::move(modern));
  return names;
}

}  // namespace

Reference make_reference_of_weights(const onnx_file::OnnxSummary& model, const std::vector<Parameter>& parameters) {
  Reference reference;
  reference.of_weights = true;
  ScopeTree tree(reference.scopes);
  tree.of("", 0);
  const Owners owners(parameters);
  std::unordered_map<std::string, UnitIndex> units;
  std::set<std::string> modules, names;
  for (const Parameter& each : parameters) {
    std::vector<UnitIndex> of_parameter;
    const auto add_owner = [&](const std::string& name) {
      const std::string owner = owners.of(name);
      auto unit = units.find(owner);
      if (unit == units.end()) {
        unit = units.emplace(owner, reference.units.add({.scope = tree.of(owner, 0), .name = ""})).first;
      }
      of_parameter.push_back(unit->second);
    };
    add_owner(each.name);
    for (const std::string& alias : each.aliases) add_owner(alias);
    sort_unique(of_parameter);
    reference.parameters.add({.names = names_of(each),
                              .dims = each.data.shape,
                              .dtype = each.data.dtype,
                              .digests = each.digests,
                              .sketch = each.sketch,
                              .units = std::move(of_parameter)});
    names.insert(each.name);
    for (std::string module(module_around(each.name)); !module.empty(); module = module_around(module)) {
      modules.insert(module);
    }
  }
  for (const ScopeIndex scope : reference.scopes.keys()) {
    reference.scopes[scope].name_path = usual_name_path(reference.scopes[scope].path);
  }
  const std::set<std::string_view> paths = called_paths(model, std::set<std::string_view>(names.begin(), names.end()));
  const OmittedContainers containers(modules, paths);
  std::set<std::string> named;
  for (const std::string_view path : paths) named.insert(module_of_path(path));
  const Wrapper wrapper = wrapper_of(named, modules);
  for (const std::string_view path : paths) {
    const auto stated = wrapper.module(module_of_path(path));
    const auto module = stated ? containers.module_meant(*stated) : std::nullopt;
    // A path without parameters around it may use another vocabulary.
    if (!module ||
        (!module->empty() && !modules.contains(*module) && !modules.contains(std::string(module_around(*module)))))
      continue;
    reference.scopes[tree.of(*module, 0)].name_path = std::string(path);
  }
  reference.index_units();
  return reference;
}

}  // namespace whence::match
