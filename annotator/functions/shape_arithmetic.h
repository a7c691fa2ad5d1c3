// Follows the sizes of a graph in execution order, once those of its inputs are numbers: what is computed of sizes (Shape,
// Gather, Concat, Range, ...) is computed, and ONNX's inference asked node by node with these values.
// ONNX's own pass over a graph follows sizes through a handful of operators only.
//
// Sizes that data decide, and those behind operators that onnx does not know, stay as the file or ONNX's pass states
// them. Where both say something, what follows from the inputs holds: files of older exporters state the sizes of the
// example that they were traced with.
#pragma once

#include <onnx/onnx_pb.h>

namespace whence::functions {

// Writes the types that it finds into value_info and the outputs of the graph. Does nothing if a size of an input is
// not a number.
void follow_sizes(onnx::ModelProto& model);

}  // namespace whence::functions
