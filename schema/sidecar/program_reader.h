// The part of the sidecar reader that makes a Program from the tables. read.cpp checks the rest of the file.
#pragma once

#include "schema/program.h"
#include "schema/sidecar/row_reader.h"

namespace whence {

// Reads everything except `producer`, `source` and `ran`, which are not tables. Throws Error(corrupt_file).
Program read_program(JsonValue document, const SidecarText& text);

}  // namespace whence
