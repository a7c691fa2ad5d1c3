// What a model computes, as a number that does not depend on names, on the order of nodes, or on whether parts of it
// are functions: two models with the same digest are the same graph, with the same metadata on the same nodes.
#pragma once

#include <string>

#include "annotator/functions/model_parts.h"

namespace whence::functions {

// Of a model whose calls were written out (inline_calls.h). Graph inputs, outputs and larger weights go by their names,
// small constants by what they hold. Sorts the nodes as WorkGraph does.
std::string graph_digest(ModelParts& parts);

}  // namespace whence::functions
