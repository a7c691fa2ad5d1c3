// Reads a file with a team's requirements for models, shared by pipelines and people: {"min": [...], "require": [...],
// "allow": [...], "tolerance": [...], "baseline": "file"}; file names are relative to it.
#pragma once

#include <string>

#include "whence/validate.h"

namespace whence::app {

// Throws Error: wrong_kind for a file of another form; as opening a file does.
ValidateOptions read_validate_config(const std::string& path);

}  // namespace whence::app
