#include "schema/module_rows.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <vector>

namespace whence {

ModuleId add_module(Program& program, std::string path, std::string type, ModuleId parent) {
  Module module;
  module.level = parent == none_id ? 0 : static_cast<int>(std::ranges::count(path, '.')) + 1;
  module.standard = type.starts_with("torch.nn.");
  module.path = std::move(path);
  module.type = std::move(type);
  module.parent = parent;
  return program.modules.add(std::move(module));
}

void sum_parameters(Program& program) {
  // Computes each set on demand: a shared module precedes some of its parents and follows others.
  IndexedVector<ModuleId, std::set<ParameterId>> below(program.modules.size());
  const std::function<const std::set<ParameterId>&(ModuleId)> collect = [&](ModuleId id) -> const auto& {
    if (!below[id].empty()) return below[id];
    const Module& module = program.modules[id];
    below[id].insert(module.own_parameters.begin(), module.own_parameters.end());
    for (const ModuleId child : module.children) below[id].merge(std::set(collect(child)));
    return below[id];
  };
  for (const ModuleId id : below.keys()) collect(id);
  for (const ModuleId id : below.keys()) {
    Module& module = program.modules[id];
    for (const ParameterId parameter : below[id]) {
      const Parameter& row = program.parameters[parameter];
      if (row.kind != ParameterKind::parameter) continue;
      const std::int64_t elements = row.data.element_count();
      module.parameters_total += elements;
      if (row.trainable) module.parameters_trainable += elements;
    }
  }
}

}  // namespace whence
