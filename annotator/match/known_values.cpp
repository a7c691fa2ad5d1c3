#include "annotator/match/known_values.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

namespace whence::match {
namespace {

// Returns values by name; none for a name that several values have, as in the bodies of functions.
std::unordered_map<std::string_view, ForeignValue> by_name(const ForeignStructure& foreign) {
  std::unordered_map<std::string_view, ForeignValue> found;
  for (const ForeignValue value : foreign.values.keys()) {
    const auto [entry, first] = found.try_emplace(foreign.values[value].name, value);
    if (!first) entry->second = {};
  }
  return found;
}

// Returns true if the value is computed from `first`, within a limited number of values.
bool comes_from(const ForeignStructure& foreign, ForeignValue value, ForeignValue first) {
  constexpr std::size_t max_values = 64;
  std::vector<ForeignValue> values = {value};
  for (std::size_t i = 0; i < values.size() && i < max_values; ++i) {
    if (values[i] == first) return true;
    for (const ForeignNode maker : foreign.makers(values[i])) {
      for (const ForeignValue input : foreign.data_inputs(maker)) {
        if (input.exists() && std::ranges::find(values, input) == values.end()) values.push_back(input);
      }
    }
  }
  return false;
}

}  // namespace

std::vector<KnownValue> known_values(const ForeignStructure& foreign, const Reference& reference) {
  if (reference.equal_values.empty()) return {};
  const auto values = by_name(foreign);
  std::vector<KnownValue> found;
  for (const EqualValue& equal : reference.equal_values) {
    const auto value = values.find(equal.name);
    if (value == values.end() || !value->second.exists() || foreign.values[value->second].constant) continue;
    const auto known = reference.value_of_program.find(equal.value);
    const bool has_it = known != reference.value_of_program.end();
    found.push_back({value->second, equal.unit, has_it ? known->second : ReferenceValue()});
  }
  std::map<ForeignValue, UnitIndex> units;
  std::map<UnitIndex, std::set<ForeignValue>> holders;
  for (const KnownValue& each : found) {
    const auto [entry, first] = units.try_emplace(foreign.loose(each.foreign), each.unit);
    if (!first && entry->second != each.unit) entry->second = {};
    holders[each.unit].insert(foreign.loose(each.foreign));
  }
  std::erase_if(found, [&](const KnownValue& each) {
    const ForeignValue own = foreign.loose(each.foreign);
    const std::set<ForeignValue>& all = holders.at(each.unit);
    return units.at(own) != each.unit || !std::ranges::all_of(all, [&](ForeignValue other) {
             return other == own || comes_from(foreign, other, own);
           });
  });
  return found;
}

}  // namespace whence::match
