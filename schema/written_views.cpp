#include "schema/written_views.h"

#include "schema/program_walk.h"

namespace whence {

bool shares_by_strides(const Node& node) {
  const OperatorFacts& facts = facts_of(node.target);
  if (facts.memory == ResultMemory::by_strides) return true;
  if (facts.memory != ResultMemory::argument || facts.identity != Identity::same_dtype) return false;
  const Argument* format = node.find("memory_format");
  return format != nullptr && !format->is_none();
}

void WrittenViews::mark(Program& program) const {
  bool writes = false;
  each_node(program.body, [&](const Node& node) { writes |= is_in_place_name(node.target); });
  if (!writes || shares_.empty()) return;
  each_node(program.body, [&](Node& node) {
    const auto noted = node.outputs.size() == 1 ? shares_.find(node.outputs.front()) : shares_.end();
    if (noted == shares_.end()) return;
    node.arguments.push_back({std::string(memory_argument), noted->second ? Argument{ArgumentList()} : Argument{}});
  });
}

}  // namespace whence
