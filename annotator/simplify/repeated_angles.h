// Cosines and sines that hold each number of the last axis twice, as rotary embeddings are written with: by which nodes
// that is known, and the same nodes on each number once.
#pragma once

#include <cstdint>

#include "annotator/simplify/rewriter.h"

namespace whence::simplify {

enum class Repeat : std::uint8_t {
  halves,  // a, b, c, a, b, c: Concat(f, f)
  pairs,   // a, a, b, b, c, c: Gather by 0, 0, 1, 1, 2, 2
};

// True if the value, a node's or a constant, is known to repeat its numbers so.
bool repeats(const Rewriter& r, graph::GraphValueId value, Repeat repeat);

// Each number once. Nodes between the value and what it repeats are made again, with their own origins; `origin` is for
// what has to be added. Requires repeats().
graph::GraphValueId each_once(Rewriter& r, graph::GraphValueId value, Repeat repeat, const origin::NodeOrigin& origin);

}  // namespace whence::simplify
