#include "annotator/match/reference.h"

#include <algorithm>

namespace whence::match {

std::int32_t Reference::common_scope(std::int32_t a, std::int32_t b) const {
  // A parent stands before its children, so the larger of two different scopes cannot enclose the smaller.
  while (a != b && a >= 0 && b >= 0) {
    std::int32_t& deeper = a > b ? a : b;
    deeper = scopes[deeper].parent;
  }
  return std::max(std::min(a, b), 0);
}

bool Reference::encloses(std::int32_t outer, std::int32_t inner) const {
  while (inner > outer) inner = scopes[inner].parent;
  return inner == outer;
}

void Reference::index_units() {
  nodes_of_unit.assign(units.size(), {});
  parameters_of_unit.assign(units.size(), {});
  classes_of_unit.assign(units.size(), {});
  for (std::size_t node = 0; node < structure.nodes.size(); ++node) {
    for (const std::int32_t unit : units_of_node[node]) classes_of_unit[unit].insert(structure.nodes[node].op_class);
    if (structure.nodes[node].kind != NodeKind::heavy) continue;
    for (const std::int32_t unit : units_of_node[node]) nodes_of_unit[unit].push_back(static_cast<std::int32_t>(node));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (const std::int32_t unit : parameters[i].units)
      parameters_of_unit[unit].push_back(static_cast<std::int32_t>(i));
  }
}

}  // namespace whence::match
