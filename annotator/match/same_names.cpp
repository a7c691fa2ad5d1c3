#include "annotator/match/same_names.h"

#include <string_view>

#include "schema/flat_map.h"

namespace whence::match {

SameNames::SameNames(const ForeignStructure& foreign, const Reference& reference)
    : names_(1),
      name_of_foreign_(foreign.values.size(), 0),
      name_of_(reference.structure.values.size(), 0),
      node_of_(foreign.nodes.size()) {
  look_up_values(foreign, reference);
  look_up_nodes(foreign, reference);
}

void SameNames::look_up_values(const ForeignStructure& foreign, const Reference& reference) {
  const ReferenceStructure& r = reference.structure;
  FlatMap<std::string_view, std::int32_t> by_name;
  by_name.reserve(r.values.size());
  names_.reserve(r.values.size() + 1);
  for (const ReferenceValue i : r.values.keys()) {
    if (r.values[i].name.empty()) continue;
    const auto [entry, first] = by_name.emplace(r.values[i].name, static_cast<std::int32_t>(names_.size()));
    if (first) names_.push_back({.value = i});
    name_of_[i] = entry->second;
    Name& name = names_[static_cast<std::size_t>(entry->second)];
    if (!name.computed.exists() && !r.values[i].constant) name.computed = i;
  }
  for (const ReferenceNode i : r.nodes.keys()) {
    if (reference.units_of_node[i].empty()) continue;
    for (const ReferenceValue output : r.nodes[i].outputs) {
      if (!output.exists() || name_of_[output] == 0) continue;
      Name& name = names_[static_cast<std::size_t>(name_of_[output])];
      if (!name.maker.exists()) name.maker = i;
    }
  }
  for (const ForeignValue i : foreign.values.keys()) {
    // Tools name results that nothing reads anew, often like values that they removed.
    if (foreign.values[i].uses.empty()) continue;
    const auto found = by_name.find(foreign.values[i].name);
    if (found == by_name.end()) continue;
    name_of_foreign_[i] = found->second;
    names_[static_cast<std::size_t>(found->second)].is_kept = true;
  }
}

void SameNames::look_up_nodes(const ForeignStructure& foreign, const Reference& reference) {
  const auto& nodes = reference.structure.nodes;
  FlatMap<std::string_view, ReferenceNode> by_name;
  by_name.reserve(nodes.size());
  for (const ReferenceNode i : nodes.keys()) {
    if (!reference.units_of_node[i].empty() && !nodes[i].name.empty()) by_name.emplace(nodes[i].name, i);
  }
  for (const ForeignNode i : foreign.nodes.keys()) {
    const auto found = by_name.find(foreign.nodes[i].name);
    if (found != by_name.end()) node_of_[i] = found->second;
  }
}

}  // namespace whence::match
