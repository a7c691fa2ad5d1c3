// Validates a file and returns the full result, which reports in other formats need (text, SARIF, JUnit, GitHub).
#pragma once

#include <string>

#include "annotator/validation/validate.h"
#include "whence/validate.h"

namespace whence::app {

// Throws Error, as whence::validate() does.
validation::Validation validation_of(const std::string& model, const ValidateOptions& options, Diagnostics& notes);

}  // namespace whence::app
