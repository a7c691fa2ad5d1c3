// Returns the name of the parameter that a constant of a program's form holds, perhaps in another order or shape; ""
// for other constants.
#pragma once

#include <string>

#include "annotator/graph/graph.h"

namespace whence::derivation {

std::string parameter_name(const graph::Graph& graph, const graph::Initializer& initializer);

}  // namespace whence::derivation
