#include "annotator/validation/hierarchy.h"

#include <map>
#include <numeric>

namespace whence::validation {
namespace {

std::string form_of(const TensorData& data) {
  std::string text(name_of(data.dtype));
  text += '[';
  for (std::size_t i = 0; i < data.shape.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(data.shape[i]);
  return text + ']';
}

// Without stamps to look up, nothing is known of any operation.
std::vector<OperationFate> unknown_fates(const Program& program) {
  std::vector<OperationFate> fates;
  for (const Node* node : operations(program)) fates.push_back({node});
  return fates;
}

class Builder {
 public:
  explicit Builder(const Program& program) : program_(program), rows_(program.modules.size()) {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      rows_[i].path = program.modules[i].path;
      rows_[i].type = program.modules[i].type;
      rows_[i].level = program.modules[i].level;
    }
    for (const Scope& scope : program.scopes) ++rows_[scope.module].calls;
  }

  void add_nodes(const Coverage& coverage) {
    std::map<std::string_view, std::int64_t> nodes;
    for (const auto& [path, counts] : coverage.modules) nodes[path] = counts.total();
    for (ModuleHierarchy& row : rows_) {
      if (const auto found = nodes.find(row.path); found != nodes.end()) row.nodes = found->second;
    }
  }

  void add(const OperationFate& fate) {
    upwards(program_.scopes[fate.operation->origin.scope].module,
            [&](ModuleHierarchy& row) { ++row.operations[static_cast<std::size_t>(fate.fate)]; });
  }

  void add(const std::vector<ParameterFate>& fates) {
    for (std::size_t module = 0; module < rows_.size(); ++module) {
      for (const ParameterId parameter : program_.modules[module].own_parameters) {
        upwards(static_cast<ModuleId>(module),
                [&](ModuleHierarchy& row) { ++row.parameters[static_cast<std::size_t>(fates[parameter].arrival)]; });
      }
    }
  }

  std::vector<ModuleHierarchy> depth_first() {
    std::vector<ModuleHierarchy> ordered;
    if (!rows_.empty()) append(0, ordered);
    return ordered;
  }

 private:
  template <class Visit>
  void upwards(ModuleId module, const Visit& visit) {
    for (; module != none_id; module = program_.modules[module].parent) visit(rows_[module]);
  }

  void append(ModuleId module, std::vector<ModuleHierarchy>& to) {
    to.push_back(std::move(rows_[module]));
    for (const ModuleId child : program_.modules[module].children) {
      if (program_.modules[child].parent == module) append(child, to);  // a shared one stands where it was found first
    }
  }

  const Program& program_;
  std::vector<ModuleHierarchy> rows_;
};

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
  return (*this)[Arrival::name] + (*this)[Arrival::content] + (*this)[Arrival::shape] + (*this)[Arrival::reader];
}

std::int64_t ModuleHierarchy::merged_parameters() const { return (*this)[Arrival::fused] + (*this)[Arrival::folded]; }

Hierarchy hierarchy_of(const CheckContext& context, const Coverage& coverage, const std::string& path) {
  const Program& program = *context.program;
  Hierarchy hierarchy;
  hierarchy.belongs = context.recorded != nullptr;
  const auto operations = hierarchy.belongs ? operation_fates(context) : unknown_fates(program);
  const auto parameters = parameter_fates(context, path, operations);
  Builder builder(program);
  builder.add_nodes(coverage);
  for (const OperationFate& fate : operations) {
    builder.add(fate);
    if (hierarchy.belongs && fate.fate != Fate::arrived) hierarchy.lost.push_back(lost(program, fate));
  }
  builder.add(parameters);
  hierarchy.modules = builder.depth_first();
  for (const ParameterFate& fate : parameters) {
    hierarchy.parameters.push_back(
        {fate.parameter->name, form_of(fate.parameter->data), fate.arrival, fate.initializer});
  }
  return hierarchy;
}

}  // namespace whence::validation
