// Comparison: compares two profiles of one model by module, from the same runtime or from two.
//
// Amounts are per run. If operators span modules or have no module, a module has a range: from `total` to `at_most`
// plus everything unattributed. A module is faster if its range is below the range in the other profile, so a fusion
// that hides a module's time is never reported as a gain.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/profile/module_profile.h"

namespace whence::profile {

// The change from the first profile to the second.
enum class Change : std::uint8_t { same, faster, slower, unclear };
std::string_view name_of(Change change);

struct ComparedModule {
  std::string path, type;
  int level = 0;
  ModuleAmount first, second;  // sums of all runs
  Change change = Change::same;
};

struct Comparison {
  ModuleProfile first, second;
  std::vector<ComparedModule> modules;  // depth first
};

// Throws Error(usage) if the profiles have different units.
Comparison compare(ModuleProfile first, ModuleProfile second);

std::string to_text(const Comparison& comparison, int depth, const text::Palette& palette);
std::string to_json(const Comparison& comparison);  // schema/profile_comparison.schema.json

}  // namespace whence::profile
