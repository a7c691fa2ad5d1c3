// An adapter and tied parameters: a module or a weight with several names. An adapter of PEFT names one of them, and
// changes only the calls of the module by that name.
#pragma once

#include <string>
#include <vector>

#include "annotator/derivation/low_rank.h"
#include "annotator/derivation/weights.h"

namespace whence::derivation {

// Adds the changes of an adapter to all names of a parameter that one operation reads. Returns the others, if the
// checkpoint has one tensor for all their names: why the adapter cannot be merged into it. Names that the checkpoint
// does not have are left to Weights::require_fit().
std::vector<std::string> extend_to_tied_names(Adapter& adapter, const Program& program, const Weights& weights);

// Returns the number of operations that read a parameter, if both are names of it in the program; otherwise 0.
int reads_of_tied(const Program& program, const std::string& name, const std::string& other);

}  // namespace whence::derivation
