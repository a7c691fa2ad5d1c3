// A digest of a model's graph that does not depend on names of nodes and inner values, on the order of nodes, or on
// whether parts of the graph are functions. Two models with the same digest have the same graph, with the same metadata
// on the same nodes.
#pragma once

#include <string>

#include "annotator/functions/model_parts.h"

namespace whence::functions {

// Computes the digest of a model whose calls are inlined (inline_calls.h). Identifies graph inputs, outputs and larger
// weights by name, and small constants by content. Sorts the nodes as WorkGraph does.
std::string graph_digest(ModelParts& parts);

}  // namespace whence::functions
