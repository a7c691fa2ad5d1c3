#include "schema/written_views.h"

#include "schema/program_walk.h"

namespace whence {

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
