// Digests of parameters: by them a weight is found again in a file that renamed, transposed or converted it.
#pragma once

#include "schema/program.h"

namespace whence {

// Fills digest (content), digest_transposed (matrices), digest_float16 and digest_bfloat16 (float32 and float64) of
// every parameter whose bytes are at hand. xxh3-128 over little-endian, row-major bytes. Streams: additional memory is
// a few MiB, whatever the weights' size.
void compute_digests(Program& program);

}  // namespace whence
