// The structure of a file in which modules are functions, with every call written out: what reports show, so that a
// file with functions has the same tree, node counts and times as without them.
#pragma once

#include <string>

#include "annotator/functions/outline_file.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::functions {

// read_onnx_summary; calls of functions that outline_file made, in bodies too, are the nodes that they stand for, as
// inline_file would write them. Functions of others stay. Weights stay in the file. Errors: those of
// read_onnx_summary and inline_file.
Result<onnx_file::OnnxSummary> read_flat_summary(const std::string& path);

// True when the file has functions that outline_file made.
bool has_cut_functions(const onnx_file::OnnxSummary& model);

// The choice that makes the functions of such a file again; an automatic one when the calls do not say their modules.
FunctionChoice cut_modules(const onnx_file::OnnxSummary& model);

}  // namespace whence::functions
