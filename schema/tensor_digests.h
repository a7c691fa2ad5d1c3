// Computes what a weight is found again by: digests (TensorDigests) and a sketch (tensor_sketch.h).
#pragma once

#include "schema/program.h"

namespace whence {

// Fills digests and sketch of every parameter whose bytes are at hand. xxh3-128 over little-endian, row-major bytes.
// Streams: additional memory is a few MiB, whatever the weights' size.
void compute_digests(Program& program);

}  // namespace whence
