// The gate --attested: a statement of `whence attest` must be about the file and leave nothing unaccounted.
#pragma once

#include <string>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/validation/gates.h"

namespace whence::validation {

extern const Rule attested_rule;

// Returns at most one shortfall each for the files, the tensors and the nodes. Reads all files of the model, for their
// digests. Throws as Statement::read and digests_of.
std::vector<Shortfall> attested_shortfalls(const std::string& path, const onnx_file::OnnxSummary& model,
                                           const std::string& statement);

}  // namespace whence::validation
