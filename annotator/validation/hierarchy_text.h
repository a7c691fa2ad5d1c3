// Parts of the report for people: what became of the recorded hierarchy, how nodes name their origin, and how that
// compares with a baseline.
#pragma once

#include <string>

#include "annotator/text/table.h"
#include "annotator/validation/validate.h"

namespace whence::validation {

// The part of a report that is shown: everything, or what fits a screen; what is cut is said.
struct ReportExtent {
  int depth = 2;  // levels of modules
  bool all = false;
};

std::string naming_text(const NamingReport& naming, bool has_sidecar, const ReportExtent& extent,
                        const text::Palette& palette);
std::string hierarchy_text(const Hierarchy& hierarchy, const ReportExtent& extent, const text::Palette& palette);
std::string parameters_text(const Hierarchy& hierarchy, const ReportExtent& extent, const text::Palette& palette);
std::string baseline_text(const Validation& validation, const text::Palette& palette);

}  // namespace whence::validation
