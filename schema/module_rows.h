// Module rows of a program and their parameter sums, shared by all front ends.
#pragma once

#include <string>

#include "schema/program.h"

namespace whence {

// Appends a module and sets its level, and `standard` for classes of torch.nn. The caller adds it to the children of
// `parent` (none_id for the root).
ModuleId add_module(Program& program, std::string path, std::string type, ModuleId parent);

// Sums the elements of the parameters at and below each module into parameters_total and parameters_trainable. A module
// with several parents counts for each of them. Within a module, each parameter counts once.
void sum_parameters(Program& program);

}  // namespace whence
