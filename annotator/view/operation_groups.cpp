#include "annotator/view/operation_groups.h"

#include <algorithm>
#include <utility>

namespace whence::view {

void OperationGroups::add(const std::vector<std::string>& ids, std::size_t node, Side side) {
  if (ids.empty()) return;
  std::size_t first = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t operation = known_.try_emplace(ids[i], operations_.size()).first->second;
    if (operation == operations_.size()) operations_.add();
    if (i == 0) first = operation;
    operations_.unite(operation, first);
  }
  added_.push_back({first, node, side});
}

std::vector<NodePairs::Fusion> OperationGroups::fusions() {
  std::vector<NodePairs::Fusion> groups;
  std::vector<std::size_t> number(operations_.size(), operations_.size());
  for (const Added& each : added_) {
    std::size_t& place = number[operations_.root(each.operation)];
    if (place == operations_.size()) {
      place = groups.size();
      groups.emplace_back();
    }
    (groups[place].*each.side).push_back(each.node);
  }
  std::erase_if(groups, [](const NodePairs::Fusion& group) { return group.a.empty() || group.b.empty(); });
  return groups;
}

}  // namespace whence::view
