#include "annotator/comparison/parameter_roles.h"

#include <algorithm>
#include <utility>

#include "annotator/comparison/wiring.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/derivation/parameter_names.h"

namespace whence::comparison {

using derivation::Expression;
using derivation::FileTensors;
using derivation::is_movement;
using derivation::parameter_name;
using derivation::ParameterStep;
using derivation::ProgramForm;
using derivation::TensorNumber;
using derivation::Use;

ParameterRoles::Role ParameterRoles::role_of(std::string_view op_type, std::size_t slot) {
  if (op_type == "Add" || op_type == "Sub" || op_type == "QLinearAdd") return Role::adds;
  if (op_type == "Mul" || op_type == "Div" || op_type == "QLinearMul") return Role::multiplies;
  const bool is_norm =
      op_type.ends_with("Normalization") && !op_type.starts_with("Skip") && op_type != "BatchNormalization";
  if (is_norm && slot == 1) return Role::multiplies;
  if (is_norm && slot == 2) return Role::adds;
  return Role::other;
}

ParameterRoles::ParameterRoles(const std::vector<ProgramForm>& forms) {
  for (const ProgramForm& form : forms) {
    const graph::Graph& graph = *form.graph;
    std::map<graph::GraphValueId, std::string> names;  // parameters, perhaps moved
    for (const graph::Initializer& initializer : graph.initializers) {
      std::string name = parameter_name(graph, initializer);
      if (!name.empty()) names.emplace(initializer.value, std::move(name));
    }
    for (const graph::GraphNode& node : graph.nodes) {
      for (std::size_t slot = 0; slot < node.inputs.size() && !node.removed; ++slot) {
        const auto name = names.find(node.inputs[slot]);
        if (name == names.end()) continue;
        const bool moves = slot == 0 && is_movement(node.op_type) && node.op_type != "Split";
        if (!moves) roles_[name->second].insert(role_of(node.op_type, slot));
        if (moves && node.outputs[0] != graph::no_value) names[node.outputs[0]] = name->second;
      }
    }
  }
}

std::string ParameterRoles::difference(const FileTensors& tensors, TensorNumber tensor,
                                       const Expression& expression) const {
  if (!is_whole_parameter(expression)) return "";
  std::set<Role> expected;
  for_each_parameter(expression, [&](const ParameterStep& step) {
    const auto add = [&](const std::string& name) {
      if (const auto known = roles_.find(name); known != roles_.end())
        expected.insert(known->second.begin(), known->second.end());
    };
    add(step.name);
    for (const std::string& name : step.same_bytes) add(name);
  });
  if (expected.size() != 1 || expected.contains(Role::other)) return "";
  const Role opposite = expected.contains(Role::adds) ? Role::multiplies : Role::adds;
  const bool is_opposite = std::ranges::any_of(tensors.final_uses(tensors[tensor]), [&](const Use& use) {
    return role_of(use.node->op_type, use.slot) == opposite;
  });
  if (!is_opposite) return "";
  return opposite == Role::adds ? "added, where the program multiplies by it: " + to_text(expression)
                                : "a factor, where the program adds it: " + to_text(expression);
}

}  // namespace whence::comparison
