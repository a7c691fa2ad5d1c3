// Recordings of TorchScript hold the results of operations that read no input as constants, also those that were
// computed from parameters. Such numbers belong to the checkpoint and not to the program.
#pragma once

#include "schema/program.h"

namespace whence::derivation {

// Forgets the results that depend on a parameter or buffer, so that the program computes them again. Results of
// buffers that the checkpoint does not have stay constants of the program, but nothing refers to them; if the elements
// of the buffer are unknown, these results stay as they are. So do sizes and other small integers, which exporting
// needs.
void forget_recorded_results(Program& program);

}  // namespace whence::derivation
