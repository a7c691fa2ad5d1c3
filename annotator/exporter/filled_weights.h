// Fills in the weights that a sidecar leaves out, so that its program can be exported for comparison.
#pragma once

#include "schema/program.h"

namespace whence::exporter {

// Returns the program with noise as the bytes that are not in memory. Needs almost no memory, whatever the sizes.
// Throws Error(over_limit) without address space for the largest weight.
Program with_filled_weights(const Program& program);

}  // namespace whence::exporter
