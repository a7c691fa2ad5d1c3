// A validation as text for people and as JSON for machines (schema/validate.schema.json).
#pragma once

#include <string>

#include "annotator/validate/validate.h"
#include "annotator/view/table.h"

namespace whence {

// `depth`: how many levels of modules the coverage table shows.
std::string to_text(const Validation& validation, int depth, const Palette& palette);
std::string to_json(const Validation& validation);

}  // namespace whence
