#include "schema/written_views.h"

#include <algorithm>

namespace whence {

void WrittenViews::mark_views(std::vector<Node>& nodes, ValueId written) const {
  if (views_.empty()) return;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (std::ranges::find(node->outputs, written) == node->outputs.end()) continue;
    if (views_.contains(written) && node->find(memory_argument) == nullptr) {
      node->arguments.push_back({std::string(memory_argument), {ArgumentList()}});
    }
    const auto* source = node->arguments.empty() ? nullptr : node->arguments.front().value.as<ValueRef>();
    if (source == nullptr) return;
    written = source->id;
  }
}

void WrittenViews::mark_copies(std::vector<Node>& nodes) {
  for (auto node = nodes.rbegin(); node != nodes.rend() && !copies_.empty(); ++node) {
    if (node->outputs.size() != 1 || copies_.erase(node->outputs.front()) == 0) continue;
    node->arguments.push_back({std::string(memory_argument), {}});
  }
}

}  // namespace whence
