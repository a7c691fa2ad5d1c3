// The modules of a program, as every front end lists them and sums their parameters.
#pragma once

#include <string>

#include "schema/program.h"

namespace whence {

// Appends a module with its level; `standard` is true for the classes of torch.nn. The caller lists it among the
// children of `parent`, which is none_id for the root.
ModuleId add_module(Program& program, std::string path, std::string type, ModuleId parent);

// Sums the elements of the parameters at and below each module into parameters_total and parameters_trainable. A module
// with several parents counts for each of them; a parameter counts once.
void sum_parameters(Program& program);

}  // namespace whence
