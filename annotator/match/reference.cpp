#include "annotator/match/reference.h"

#include <algorithm>

namespace whence::match {

void Reference::index_units() {
  nodes_of_unit.assign(units.size(), {});
  parameters_of_unit.assign(units.size(), {});
  classes_of_unit.assign(units.size(), {});
  for (const ReferenceNode node : structure.nodes.keys()) {
    for (const UnitIndex unit : units_of_node[node]) {
      std::vector<std::uint16_t>& classes = classes_of_unit[unit];
      const std::uint16_t op_class = structure.nodes[node].op_class;
      if (std::ranges::find(classes, op_class) == classes.end()) classes.push_back(op_class);
      if (units[unit].scope.exists()) classes_of_scope[units[unit].scope].insert(op_class);
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
