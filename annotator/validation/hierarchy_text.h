// Sections of the text report: the fate of recorded operations and parameters, how nodes name their origin, and the
// comparison with a baseline.
#pragma once

#include <string>

#include "annotator/text/table.h"
#include "annotator/validation/validate.h"

namespace whence::validation {

// How much of a report is shown: all rows, or about a screenful with a count of the omitted rows.
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
