#include "annotator/profile/comparison.h"

namespace whence::profile {
namespace {

struct Range {
  double min = 0, max = 0;  // amounts of one run
};

// Operators without a known module may belong to any module.
Range range_of(const ModuleAmount& amount, const ModuleProfile& profile) {
  const auto runs = static_cast<double>(profile.runs);
  return {static_cast<double>(amount.total) / runs, static_cast<double>(amount.at_most + profile.unattributed) / runs};
}

Change change_of(const Range& first, const Range& second) {
  if (second.max < first.min) return Change::faster;
  if (second.min > first.max) return Change::slower;
  const bool exact = first.min == first.max && second.min == second.max;
  return exact ? Change::same : Change::unclear;
}

}  // namespace

std::string_view name_of(Change change) {
  constexpr std::string_view names[] = {"same", "faster", "slower", "unclear"};
  return names[static_cast<std::size_t>(change)];
}

Comparison compare(ModuleProfile first, ModuleProfile second) {
  if (first.unit != second.unit) {
    throw Error(Code::usage,
                "the profiles have different units: " + std::string(name_of(first.unit)) + " and " +
                    std::string(name_of(second.unit)),
                "compare profiles with the same unit", {.file = second.profile, .stage = "profile"});
  }
  Comparison comparison;
  for (std::size_t i = 0; i < first.tree.rows.size(); ++i) {  // both profiles have the same tree
    const view::ModuleRow& row = first.tree.rows[i];
    comparison.modules.push_back({row.path, row.type, row.level, first.amounts[i], second.amounts[i],
                                  change_of(range_of(first.amounts[i], first), range_of(second.amounts[i], second))});
  }
  comparison.first = std::move(first);
  comparison.second = std::move(second);
  return comparison;
}

}  // namespace whence::profile
