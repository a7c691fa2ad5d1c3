// Module paths, names of nodes and of units, as keys for the rules that read names.
#include "annotator/match/rules/rule.h"

namespace whence {
namespace {

const std::vector<std::int32_t> nothing;

const std::vector<std::int32_t>& look_up(const auto& index, std::string_view key) {
  const auto found = index.find(std::string(key));
  return found == index.end() ? nothing : found->second;
}

}  // namespace

ReferenceNames::ReferenceNames(const Reference& reference) {
  for (std::size_t i = 0; i < reference.scopes.size(); ++i) {
    const ReferenceScope& scope = reference.scopes[i];
    modules_[scope.path].push_back(static_cast<std::int32_t>(i));
    paths_[scope.name_path].push_back(static_cast<std::int32_t>(i));
  }
  for (std::size_t i = 0; i < reference.units.size(); ++i) {
    units_.try_emplace(reference.units[i].name, static_cast<std::int32_t>(i));
  }
}

const std::vector<std::int32_t>& ReferenceNames::scopes_of_module(std::string_view path) const {
  return look_up(modules_, path);
}

const std::vector<std::int32_t>& ReferenceNames::scopes_of_path(std::string_view path) const {
  return look_up(paths_, path);
}

std::int32_t ReferenceNames::unit_named(std::string_view name) const {
  const auto found = units_.find(std::string(name));
  return found == units_.end() ? -1 : found->second;
}

}  // namespace whence
