// Turns modules of an annotated ONNX file into functions, one for each unique block, and functions back into nodes.
// Works on ModelSource and ModelOutput, for the other folders; options and reports are described in whence/functions.h.
// Needs no header of onnx.
#pragma once

#include "annotator/onnx_file/carried_data.h"
#include "schema/result.h"
#include "whence/functions.h"

namespace whence::functions {

// Errors: those of reading; usage when nothing is chosen, or a choice matches nothing (with the nearest names);
// unsupported_feature when all that was chosen is refused; internal when writing the calls out again would not give the
// graph of `input`: nothing is written then.
Result<FunctionsReport> outline_file(const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output,
                                     const FunctionChoice& choice);

// Writes out the calls of functions that outline_file made; `all`: of every function. Errors: those of reading;
// corrupt_file for calls that do not fit their function, unsupported_feature for a function of another opset version
// than the model.
Result<InlineReport> inline_file(const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output, bool all);

// Writes one call of one module as a model of its own. Errors: those of reading; unknown_node for a module or call that
// the file does not have (with the nearest names); unsupported_feature when its nodes are not one part of the graph,
// when the type of an input is not known, and, unless options.partial, when other nodes may belong to it
// (unclear_parts.h).
Result<ExtractReport> extract_file(const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output,
                                   const ExtractOptions& options);

}  // namespace whence::functions
