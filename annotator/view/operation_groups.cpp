#include "annotator/view/operation_groups.h"

#include <algorithm>
#include <utility>

namespace whence::view {

void OperationGroups::add(const std::vector<std::string>& ids, std::size_t node, Side side) {
  if (ids.empty()) return;
  std::size_t first = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t operation = known_.try_emplace(ids[i], together_with_.size()).first->second;
    if (operation == together_with_.size()) together_with_.push_back(operation);
    if (i == 0) first = operation;
    together_with_[group_of(operation)] = group_of(first);
  }
  added_.push_back({first, node, side});
}

std::vector<NodePairs::Fusion> OperationGroups::fusions() {
  std::vector<NodePairs::Fusion> groups;
  std::vector<std::size_t> number(together_with_.size(), together_with_.size());
  for (const Added& each : added_) {
    std::size_t& place = number[group_of(each.operation)];
    if (place == together_with_.size()) {
      place = groups.size();
      groups.emplace_back();
    }
    (groups[place].*each.side).push_back(each.node);
  }
  std::erase_if(groups, [](const NodePairs::Fusion& group) { return group.a.empty() || group.b.empty(); });
  return groups;
}

// Union-find with halved paths.
std::size_t OperationGroups::group_of(std::size_t operation) {
  while (together_with_[operation] != operation) {
    together_with_[operation] = together_with_[together_with_[operation]];
    operation = together_with_[operation];
  }
  return operation;
}

}  // namespace whence::view
