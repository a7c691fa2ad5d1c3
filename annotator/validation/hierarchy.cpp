#include "annotator/validation/hierarchy.h"

#include <numeric>

namespace whence::validation {
namespace {

std::string form_of(const TensorData& data) {
  std::string text(name_of(data.dtype));
  text += '[';
  for (std::size_t i = 0; i < data.shape.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(data.shape[i]);
  return text + ']';
}

// Returns the fates of a file without stamps: all unknown.
std::vector<OperationFate> unknown_fates(const Program& program) {
  std::vector<OperationFate> fates;
  for (const Node* node : operations(program)) fates.push_back({node});
  return fates;
}

using Modules = origin::ModuleTree<ModuleHierarchy>;

void add_modules(const Program& program, Modules& modules) {
  for (const Module& module : program.modules) modules.rows[modules.add(module.path)].type = module.type;
  for (const Scope& scope : program.scopes) ++modules.rows[modules.add(program.modules[scope.module].path)].calls;
}

void add_nodes(const Coverage& coverage, Modules& modules) {
  for (const auto& [path, counts] : coverage.modules) {
    if (const auto row = modules.find(path)) modules.rows[*row].nodes = counts.total();
  }
}

void add(const Program& program, const OperationFate& fate, Modules& modules) {
  modules.upwards(modules.add(program.module_path(fate.operation->origin.scope)),
                  [&](ModuleHierarchy& row) { ++row.operations[static_cast<std::size_t>(fate.fate)]; });
}

void add(const Program& program, const ParameterFates& fates, Modules& modules) {
  for (const Module& module : program.modules) {
    for (const ParameterId parameter : module.own_parameters) {
      modules.upwards(modules.add(module.path), [&](ModuleHierarchy& row) {
        ++row.parameters[static_cast<std::size_t>(fates[parameter].arrival)];
      });
    }
  }
}

LostOperation lost(const Program& program, const OperationFate& fate) {
  const Node& node = *fate.operation;
  const Scope& scope = program.scopes[node.origin.scope];
  return {node.origin.op, node.target, program.modules[scope.module].path, scope.call, fate.fate, fate.reason};
}

}  // namespace

std::int64_t ModuleHierarchy::recorded() const {
  return std::accumulate(operations.begin(), operations.end(), std::int64_t{0});
}

std::int64_t ModuleHierarchy::recorded_parameters() const {
  return std::accumulate(parameters.begin(), parameters.end(), std::int64_t{0});
}

std::int64_t ModuleHierarchy::kept_parameters() const {
  std::int64_t kept = 0;
  for (std::size_t i = 0; i < arrival_count; ++i) kept += arrived(static_cast<Arrival>(i)) ? parameters[i] : 0;
  return kept;
}

std::int64_t ModuleHierarchy::merged_parameters() const { return (*this)[Arrival::fused] + (*this)[Arrival::folded]; }

Hierarchy hierarchy_of(const CheckContext& context, const Coverage& coverage, const std::string& path) {
  const Program& program = *context.program;
  Hierarchy hierarchy;
  hierarchy.belongs = context.recorded != nullptr;
  const auto operations = hierarchy.belongs ? operation_fates(context) : unknown_fates(program);
  const auto parameters = parameter_fates(context, path, operations);
  add_modules(program, hierarchy.modules);
  add_nodes(coverage, hierarchy.modules);
  for (const OperationFate& fate : operations) {
    add(program, fate, hierarchy.modules);
    if (hierarchy.belongs && fate.fate != Fate::arrived) hierarchy.lost.push_back(lost(program, fate));
  }
  add(program, parameters, hierarchy.modules);
  hierarchy.modules.order_depth_first();
  for (const ParameterFate& fate : parameters) {
    hierarchy.parameters.push_back(
        {fate.parameter->name, form_of(fate.parameter->data), fate.arrival, fate.initializer});
  }
  return hierarchy;
}

}  // namespace whence::validation
