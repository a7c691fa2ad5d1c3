// Infers the types of intermediate results from the inputs of a freshly emitted node. Converters rely on it when they
// query dtype() or rank() of a value they made themselves; results of whole operations get their types from the
// recorded program. Covers the ONNX operators whose rule is short; types of others stay unknown.
#pragma once

#include "annotator/graph/graph.h"

namespace whence::convert {

// Sets dtype and dims of the node's outputs if the inputs determine them. A size that they do not determine is Dim{}:
// neither static nor dynamic. `graph` must already hold the node's inputs with their types.
void infer_types(graph::Graph& graph, const graph::GraphNode& node);

}  // namespace whence::convert
