// Names of a finished graph: every node says in its name which module it belongs to, in the form PyTorch's TorchScript
// exporter made known: `/encoder/layer.0/attention/self/query/MatMul`, `_1`, `_2`, ... when repeated.
#pragma once

#include "annotator/graph/graph.h"
#include "schema/program.h"

namespace whence::exporter {

// Names nodes (those of bodies too), their results (`<node name>_output_0`) and constants. Graph inputs and outputs
// keep the names they have, unnamed outputs become `output`, or `output_0`, `output_1` when there are several;
// initializers that have a name (parameters, what was computed from one) keep it, others are constants of their module.
// `program`: the one that was recorded, to whose operations the origins point.
void name_nodes(graph::Graph& graph, const Program& program);
// Names inputs, outputs and constants as name_nodes() does; nodes, the values between them, and constants of which
// only the place is known stay without one.
void name_interface(graph::Graph& graph);

}  // namespace whence::exporter
