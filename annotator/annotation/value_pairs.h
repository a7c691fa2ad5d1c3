// Reads which values of an ONNX file are, by their numbers, results of recorded operations: what `whence annotate
// --values` found when the Python package ran the file.
#pragma once

#include <string>
#include <vector>

#include "annotator/match/reference.h"
#include "schema/program.h"

namespace whence::annotation {

// JSON: {"format": "whence-value-pairs", "version": 1, "program": DIGEST, "pairs": [{"value": NAME, "operation": N,
// "output": N}, ...]}; operations and their results are counted as the sidecar has them. Throws Error: those of
// MappedFile, wrong_kind for another file, corrupt_file for pairs that the program does not have, sidecar_mismatch for
// those of another program.
std::vector<match::EqualValue> read_value_pairs(const std::string& path, const Program& program);

}  // namespace whence::annotation
