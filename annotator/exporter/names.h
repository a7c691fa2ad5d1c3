// Names a finished graph: the name of a node contains its module, in the form of PyTorch's TorchScript exporter:
// `/encoder/layer.0/attention/self/query/MatMul`, with `_1`, `_2`, ... for repeated names.
#pragma once

#include "annotator/graph/graph.h"
#include "schema/program.h"

namespace whence::exporter {

// Names nodes (also in bodies), their results (`<node name>_output_0`) and constants. Graph inputs and outputs keep
// their names; unnamed outputs become `output`, or `output_0`, `output_1` if there are several. Named initializers
// (parameters, and constants computed from one) keep their names, others become constants of their module. `program`:
// the recorded program that the origins refer to.
void name_nodes(graph::Graph& graph, const Program& program);
// Names inputs, outputs and named constants like name_nodes(). Nodes, intermediate values and unnamed constants stay
// unnamed.
void name_interface(graph::Graph& graph);

}  // namespace whence::exporter
