#include "annotator/match/reference.h"

#include <algorithm>

namespace whence::match {

void Reference::keep_units_and_scopes() {
  Reference kept;
  kept.values_keep_names = values_keep_names;
  kept.of_weights = of_weights;
  kept.units = std::move(units);
  kept.scopes = std::move(scopes);
  *this = std::move(kept);
}

void Reference::index_units() {
  nodes_of_unit.assign(units.size(), {});
  parameters_of_unit.assign(units.size(), {});
  classes_of_unit.assign(units.size(), {});
  classes_of_scope.assign(scopes.size(), {});
  for (const ReferenceNode node : structure.nodes.keys()) {
    for (const UnitIndex unit : units_of_node[node]) {
      std::vector<std::uint16_t>& classes = classes_of_unit[unit];
      const std::uint16_t op_class = structure.nodes[node].op_class;
      if (std::ranges::find(classes, op_class) == classes.end()) classes.push_back(op_class);
      if (!units[unit].scope.exists()) continue;
      std::vector<std::uint16_t>& of_scope = classes_of_scope[units[unit].scope];
      if (std::ranges::find(of_scope, op_class) == of_scope.end()) of_scope.push_back(op_class);
    }
    if (structure.nodes[node].kind != NodeKind::heavy) continue;
    for (const UnitIndex unit : units_of_node[node]) nodes_of_unit[unit].push_back(node);
  }
  for (const ParameterIndex i : parameters.keys()) {
    for (const UnitIndex unit : parameters[i].units) parameters_of_unit[unit].push_back(i);
  }
  vanished_units.clear();
  for (const UnitIndex unit : classes_of_unit.keys()) {
    if (classes_of_unit[unit].empty()) vanished_units.push_back(unit);
  }
}

}  // namespace whence::match
