// Reads the structure of a file with the calls of whence's functions inlined. Reports show this structure, so that a
// file has the same tree, node counts and times with functions as without.
#pragma once

#include <string>

#include "annotator/functions/outline_file.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::functions {

// Reads a file like read_onnx_summary, and replaces calls of functions that outline_file made, also in bodies, with the
// nodes that inline_file would write for them. Calls of other functions stay, and weights stay in the file. Errors:
// those of read_onnx_summary and inline_file.
Result<onnx_file::OnnxSummary> read_flat_summary(const std::string& path);

// Returns true if the file has functions that outline_file made.
bool has_cut_functions(const onnx_file::OnnxSummary& model);

// Returns the choice with which outline_file makes the same functions again; the automatic choice if the calls do not
// name their modules.
FunctionChoice cut_modules(const onnx_file::OnnxSummary& model);

}  // namespace whence::functions
