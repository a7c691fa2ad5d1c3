// Reads which values of an ONNX file are numerically equal to results of recorded operations. `whence annotate
// --values` finds these pairs when the Python package runs the file.
#pragma once

#include <string>
#include <vector>

#include "annotator/match/reference.h"
#include "schema/program.h"

namespace whence::annotation {

// JSON: {"format": "whence-value-pairs", "version": 1, "program": DIGEST, "pairs": [{"value": NAME, "operation": N,
// "output": N}, ...]}; operations and their results are numbered as in the sidecar. Throws Error: the errors of
// MappedFile; wrong_kind for a file without pairs; corrupt_file for an operation or result that the program does not
// have; sidecar_mismatch for pairs of another program.
std::vector<match::EqualValue> read_value_pairs(const std::string& path, const Program& program);

}  // namespace whence::annotation
