#include "annotator/profile/module_amounts.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace whence::profile {
namespace {

void add(const LayerMemory& memory, std::optional<LayerMemory>& to) {
  if (!to) to.emplace();
  to->inputs += memory.inputs;
  to->parameters += memory.parameters;
  to->outputs += memory.outputs;
  to->temporary += memory.temporary;
  if (memory.peak) to->peak = std::max(to->peak.value_or(0), *memory.peak);
}

// Adds the layer to `at_most` of the modules below its own that have a part of it: each may have taken all of it.
void add_bounds(ModuleProfile& profile, const ProfiledLayer& layer) {
  std::set<std::size_t> around, within;
  for (std::optional<std::size_t> at = layer.modules.row; at; at = profile.tree.rows[*at].parent) around.insert(*at);
  for (const std::size_t part : layer.modules.parts) {
    for (std::size_t at = part; !around.contains(at) && within.insert(at).second;) at = *profile.tree.rows[at].parent;
  }
  for (const std::size_t row : within) profile.amounts[row].at_most += layer.runtime_layer.amount;
}

void add_calls(ModuleProfile& profile, const std::map<std::pair<std::size_t, std::string>, std::int64_t>& calls) {
  for (const auto& [key, amount] : calls) profile.calls.push_back({key.first, key.second, amount});
  std::ranges::stable_sort(profile.calls, [](const CallAmount& a, const CallAmount& b) {
    return a.row != b.row                   ? a.row < b.row
           : a.call.size() != b.call.size() ? a.call.size() < b.call.size()
                                            : a.call < b.call;  // orders numbers in text form
  });
}

// The union of intervals, added in order of their start.
class Union {
 public:
  void add(const LayerEvent& event) {
    const std::int64_t end = event.start + event.duration;
    if (empty_ || event.process != process_ || event.start >= end_) {
      length_ += event.duration;
    } else if (end > end_) {
      length_ += end - end_;
    } else {
      return;
    }
    empty_ = false, process_ = event.process, end_ = end;
  }
  std::int64_t length() const { return length_; }

 private:
  std::int64_t process_ = 0, end_ = 0, length_ = 0;
  bool empty_ = true;
};

void add_walls(ModuleProfile& profile) {
  std::vector<std::pair<LayerEvent, std::optional<std::size_t>>> events;
  for (const ProfiledLayer& layer : profile.layers) {
    for (const LayerEvent& event : layer.runtime_layer.events) events.emplace_back(event, layer.modules.row);
  }
  if (events.empty()) return;
  std::ranges::stable_sort(events, {},
                           [](const auto& each) { return std::tuple(each.first.process, each.first.start); });
  Union all;
  std::vector<Union> of_row(profile.amounts.size());
  for (const auto& [event, row] : events) {
    all.add(event);
    for (std::optional<std::size_t> at = row; at; at = profile.tree.rows[*at].parent) of_row[*at].add(event);
  }
  profile.wall = all.length();
  for (std::size_t i = 0; i < of_row.size(); ++i) profile.amounts[i].wall = of_row[i].length();
}

}  // namespace

void add_amounts(ModuleProfile& profile) {
  profile.amounts.resize(profile.tree.rows.size());
  std::map<std::pair<std::size_t, std::string>, std::int64_t> calls;
  for (const ProfiledLayer& layer : profile.layers) {
    const std::int64_t amount = layer.runtime_layer.amount;
    profile.amount += amount;
    if (!layer.modules.row) {
      profile.unattributed += amount;
      continue;
    }
    const std::size_t row = *layer.modules.row;
    profile.amounts[row].own += amount;
    if (!layer.modules.call.empty()) calls[{row, layer.modules.call}] += amount;
    for (std::optional<std::size_t> at = row; at; at = profile.tree.rows[*at].parent) {
      profile.amounts[*at].total += amount;
      profile.amounts[*at].at_most += amount;
      if (!layer.runtime_layer.provider.empty()) profile.amounts[*at].providers[layer.runtime_layer.provider] += amount;
      if (layer.runtime_layer.memory) add(*layer.runtime_layer.memory, profile.amounts[*at].memory);
    }
    add_bounds(profile, layer);
  }
  add_calls(profile, calls);
  add_walls(profile);
}

std::span<const CallAmount> ModuleProfile::calls_of(std::size_t row) const {
  return std::ranges::equal_range(calls, row, {}, &CallAmount::row);
}

bool ModuleProfile::has_providers() const {
  return std::ranges::any_of(layers, [&](const ProfiledLayer& each) {
    return each.runtime_layer.provider != layers.front().runtime_layer.provider;
  });
}

bool ModuleProfile::has_bounds() const {
  return std::ranges::any_of(amounts, [](const ModuleAmount& each) { return each.at_most > each.total; });
}

}  // namespace whence::profile
