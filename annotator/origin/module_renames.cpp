#include "annotator/origin/module_renames.h"

#include "schema/module_path.h"

namespace whence::origin {

void ModuleRenames::add(std::string_view from, std::string_view to) {
  while (!from.empty() && !to.empty()) {
    renamed_[std::string(from)].emplace(to);
    if (last_segment(from) != last_segment(to)) return;
    from = module_around(from), to = module_around(to);
  }
}

std::set<std::string> ModuleRenames::all(std::string_view module, std::string_view scope) const {
  for (std::string_view around = module; !around.empty() && around != scope; around = module_around(around)) {
    const auto known = renamed_.find(around);
    if (known == renamed_.end()) continue;
    if (around == module) return known->second;
    std::set<std::string> modules;
    for (const std::string& to : known->second) modules.insert(joined_path(to, module.substr(around.size() + 1)));
    return modules;
  }
  return {};
}

std::optional<std::string> ModuleRenames::at(std::string_view module, std::string_view scope) const {
  const std::set<std::string> modules = all(module, scope);
  return modules.size() == 1 ? std::optional(*modules.begin()) : std::nullopt;
}

}  // namespace whence::origin
