// Writes a validation as text and as JSON (schema/validate.schema.json).
#pragma once

#include <string>

#include "annotator/validation/hierarchy_text.h"

namespace whence::validation {

std::string to_text(const Validation& validation, const ReportExtent& extent, const text::Palette& palette);
std::string to_json(const Validation& validation);

}  // namespace whence::validation
