// Computes the digests (TensorDigests) and the sketch (tensor_sketch.h) that identify a weight in other files.
#pragma once

#include "schema/program.h"

namespace whence {

// Sets digests and sketch of every parameter whose bytes are in memory. Digests are xxh3-128 over little-endian,
// row-major bytes. Needs only a few MiB of additional memory, whatever the size of the weights.
void compute_digests(Program& program);

}  // namespace whence
