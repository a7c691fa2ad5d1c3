// Detects cosines and sines that contain each number of the last axis twice, as rotary embeddings use them, and
// computes them with each number once.
#pragma once

#include <cstdint>

#include "annotator/simplify/rewriter.h"

namespace whence::simplify {

enum class Repeat : std::uint8_t {
  halves,  // a, b, c, a, b, c: Concat(f, f)
  pairs,   // a, a, b, b, c, c: Gather by 0, 0, 1, 1, 2, 2
};

// Returns true if the value, computed or constant, is known to repeat its numbers this way.
bool repeats(const Rewriter& r, graph::GraphValueId value, Repeat repeat);

// Returns a value with each number once. Nodes between the value and the repetition are copied with their own origins;
// additional nodes get `origin`. Requires repeats().
graph::GraphValueId without_repeats(Rewriter& r, graph::GraphValueId value, Repeat repeat,
                                    const origin::NodeOrigin& origin);

}  // namespace whence::simplify
