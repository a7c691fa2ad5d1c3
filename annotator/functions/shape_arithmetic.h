// Computes the sizes of a graph in execution order from numbers for the sizes of its inputs. Evaluates the nodes that
// compute with sizes (Shape, Gather, Concat, Range, ...), and runs ONNX's inference node by node with these values.
// ONNX's own pass over a graph follows sizes only through a handful of operators.
//
// Data-dependent sizes, and sizes after operators that onnx does not define, stay as the file or ONNX's pass states
// them. Other stated sizes are replaced: older exporters wrote the sizes of their example inputs.
#pragma once

#include <onnx/onnx_pb.h>

namespace whence::functions {

// Writes the types that it finds into value_info and the outputs of the graph. Does nothing if a size of an input is
// not a number.
void follow_sizes(onnx::ModelProto& model);

}  // namespace whence::functions
