// The part of the sidecar reader that makes a Program of the tables; sidecar_read.cpp judges the file around them.
#pragma once

#include "schema/program.h"
#include "schema/sidecar/row_reader.h"

namespace whence {

// Everything but the producer, the source and `ran`, which are not tables. Throws Error(corrupt_file).
Program read_program(JsonValue document, const SidecarText& text);

}  // namespace whence
