// Comparison: two profiles of one model by module, from one runtime or from two.
//
// Amounts are per run. Where a runtime's operators span modules, or no module is known for some, a module has a range:
// from total to at_most and all that is unattributed. One is faster than the other when its range lies below the
// other's, so that a fusion which hides a module's time is never called a gain.
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

// Throws Error(usage) when the profiles are not in the same unit.
Comparison compare(ModuleProfile first, ModuleProfile second);

std::string to_text(const Comparison& comparison, int depth, const text::Palette& palette);
std::string to_json(const Comparison& comparison);  // schema/profile_comparison.schema.json

}  // namespace whence::profile
