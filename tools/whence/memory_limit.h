// A bound on the memory of the process, so that running out of it is an error.
#pragma once

namespace whence {

// Lets the process take as much memory as the machine has. A model may take any amount when it is run, a loop that
// doubles a tensor say; beyond this, the system would end the process, or another one, without a word.
void limit_memory();

}  // namespace whence
