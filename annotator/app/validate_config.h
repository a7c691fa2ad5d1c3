// A file that says what a team asks of its models, so that pipelines and people ask the same: {"min": [...],
// "require": [...], "allow": [...], "baseline": "file"}; names of files are relative to it.
#pragma once

#include <string>

#include "whence/validate.h"

namespace whence::app {

// Throws Error: wrong_kind for a file that is not such a file, and what opening a file throws.
ValidateOptions read_validate_config(const std::string& path);

}  // namespace whence::app
