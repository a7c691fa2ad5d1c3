#include "schema/written_views.h"

#include <algorithm>
#include <array>

namespace whence {

bool is_view_by_strides(std::string_view target) {
  static constexpr std::array<std::string_view, 5> targets{"aten::contiguous", "aten::flatten", "aten::ravel",
                                                           "aten::reshape", "aten::reshape_as"};
  return std::ranges::find(targets, target) != targets.end();
}

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
