// Masks of attention: whether they hide the positions after each one, in a form of the program and in a file.
#pragma once

#include <string_view>

#include "annotator/derivation/file_tensors.h"
#include "annotator/graph/graph.h"

namespace whence::comparison {

// Returns true if a mask hides the positions after each one, and perhaps others.
bool is_causal_mask(const graph::Graph& graph, graph::GraphValueId mask);
// Returns true if a value follows from the content of an input, and not from sizes alone.
bool depends_on_input(const graph::Graph& graph, graph::GraphValueId value);
// Returns false for a mask of a file that treats all rows alike: one that neither compares positions nor holds a table.
bool may_be_causal(const derivation::FileTensors& tensors, std::string_view mask);

}  // namespace whence::comparison
