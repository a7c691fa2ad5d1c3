// Turns modules of an annotated ONNX file into functions, one for each unique block, and functions back into nodes.
// This is the header for other rooms: it needs no header of onnx. whence/functions.h describes options and reports.
#pragma once

#include "annotator/onnx_file/carried_data.h"
#include "schema/result.h"
#include "whence/functions.h"

namespace whence::functions {

// Replaces modules with calls of functions. Errors: those of reading; usage if nothing is chosen, or a choice matches
// nothing (with the nearest names); unsupported_feature if every chosen module is refused; corrupt_file or internal if
// inlining the functions does not give the graph of `input`. Writes nothing after an error.
Result<FunctionsReport> outline_file(const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output,
                                     const FunctionChoice& choice);

// Inlines the calls of functions that outline_file made, or of every function if `all`. Errors: those of reading;
// corrupt_file for calls that do not fit their function; unsupported_feature for a function with another opset version
// than the model; over_limit for too many nodes.
Result<InlineReport> inline_file(const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output, bool all);

// Extracts one call of a module as a model. Errors: those of reading; unknown_node for a module or call that the file
// does not have (with the nearest names); unsupported_feature if its nodes are not a contiguous part of the graph, if
// the type of an input is unknown, and, unless options.partial, if other nodes may belong to it (unclear_parts.h).
Result<ExtractReport> extract_file(const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output,
                                   const ExtractOptions& options);

}  // namespace whence::functions
