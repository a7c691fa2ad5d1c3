// Computes the digests of parameters (TensorDigests).
#pragma once

#include "schema/program.h"

namespace whence {

// Fills the digests of every parameter whose bytes are at hand. xxh3-128 over little-endian, row-major bytes. Streams:
// additional memory is a few MiB, whatever the weights' size.
void compute_digests(Program& program);

}  // namespace whence
