// Indexes module paths, names of nodes and names of units, for the rules that read names.
#include "annotator/match/rules/rule.h"

namespace whence::match {
namespace {

const std::vector<ScopeIndex> no_scopes;

const std::vector<ScopeIndex>& look_up(const auto& index, std::string_view key) {
  const auto found = index.find(key);
  return found == index.end() ? no_scopes : found->second;
}

// Returns the part of a module's path that PyTorch's TorchScript exporter puts in names: it leaves out containers that
// are never called. `model.decoder`, called by the root, is `/decoder`; `encoder.blocks.0` is `/blocks.0`.
std::string_view path_without_containers(std::string_view path, std::string_view parent) {
  if (!parent.empty() && path.size() > parent.size()) path.remove_prefix(parent.size() + 1);
  std::size_t start = path.rfind('.');
  while (start != std::string_view::npos && start + 1 < path.size() && path[start + 1] >= '0' &&
         path[start + 1] <= '9') {
    start = start == 0 ? std::string_view::npos : path.rfind('.', start - 1);
  }
  return start == std::string_view::npos ? path : path.substr(start + 1);
}

}  // namespace

ReferenceNames::ReferenceNames(const Reference& reference) : without_containers_(reference.scopes.size()) {
  modules_.reserve(reference.scopes.size());
  paths_.reserve(reference.scopes.size());
  for (const ScopeIndex i : reference.scopes.keys()) {
    const origin::ModuleCall& scope = reference.scopes[i];
    modules_[scope.path].push_back(i);
    paths_[scope.name_path].push_back(i);
    if (!scope.parent.exists() || scope.path.empty()) continue;
    if (scope.path == reference.scopes[scope.parent].path) {  // another call
      without_containers_[i] = without_containers_[scope.parent];
      if (without_containers_[i] != scope.name_path) paths_[without_containers_[i]].push_back(i);
      continue;
    }
    without_containers_[i] = without_containers_[scope.parent] + "/" +
                             std::string(path_without_containers(scope.path, reference.scopes[scope.parent].path));
    if (without_containers_[i] != scope.name_path) paths_[without_containers_[i]].push_back(i);
  }
  units_.reserve(reference.units.size());
  for (const UnitIndex i : reference.units.keys()) {
    units_.try_emplace(reference.units[i].name, i);
  }
}

const std::vector<ScopeIndex>& ReferenceNames::scopes_of_module(std::string_view path) const {
  return look_up(modules_, path);
}

const std::vector<ScopeIndex>& ReferenceNames::scopes_of_path(std::string_view path) const {
  return look_up(paths_, path);
}

UnitIndex ReferenceNames::unit_named(std::string_view name) const {
  const auto found = units_.find(name);
  return found == units_.end() ? UnitIndex() : found->second;
}

}  // namespace whence::match
