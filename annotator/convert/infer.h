// Types of intermediate results: what follows from the inputs of a freshly emitted node without knowing its operation.
// Converters rely on it when they ask dtype() or rank() of a value they made themselves; results of whole operations
// get their types from the record. Covers the ONNX operators whose rule is short; others stay unknown.
#pragma once

#include "annotator/graph/graph.h"

namespace whence::convert {

// Fills dtype and dims of the node's outputs where they follow. A size that does not follow is Dim{}: neither static
// nor dynamic. `graph` must hold the node's inputs with their types.
void infer_types(graph::Graph& graph, const graph::GraphNode& node);

}  // namespace whence::convert
