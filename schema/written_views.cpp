#include "schema/written_views.h"

#include <algorithm>
#include <array>

namespace whence {

void note_written_views(std::vector<Node>& nodes, ValueId written, const std::unordered_set<ValueId>& views) {
  if (views.empty()) return;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (std::ranges::find(node->outputs, written) == node->outputs.end()) continue;
    if (views.contains(written) && node->find(memory_argument) == nullptr) {
      node->arguments.push_back({std::string(memory_argument), {ArgumentList()}});
    }
    const auto* source = node->arguments.empty() ? nullptr : node->arguments.front().value.as<ValueRef>();
    if (source == nullptr) return;
    written = source->id;
  }
}

}  // namespace whence
