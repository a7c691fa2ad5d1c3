// Indexing with tensors, x[:, i, j]: what index and index_put have in common.
//
// PyTorch broadcasts the index tensors to one shape B. Where the indexed axes are neighbours, B takes their place in
// the result; else B stands in front of all other axes. GatherND and ScatterND know only indexed axes in front, so x
// is transposed for them.
#pragma once

#include <vector>

#include "annotator/convert/ctx.h"

namespace whence::convert {

struct IndexedAxis {
  std::int64_t axis = 0;
  Val index;      // int64 or int32 positions, negative ones count from the end
  Val mask_rows;  // the positions of all axes of the mask that this one is from, [axes, n]; absent for other indices
};

// The axes that `indices` (one entry per axis, absent for `:`) select from. A boolean mask over k axes becomes k lists
// of positions.
std::vector<IndexedAxis> indexed_axes(Ctx& c, const std::vector<Val>& indices);

// The only index that is given, when it is a boolean mask, with the first axis it covers.
std::optional<IndexedAxis> only_mask(Ctx& c, const std::vector<Val>& indices);

struct IndexLayout {
  Ints to_front;   // permutation of x's axes: the indexed ones, then the others in order
  int index_rank;  // rank of B
  int before;      // how many of the other axes stand before B in PyTorch's result
};
IndexLayout index_layout(Ctx& c, const std::vector<IndexedAxis>& axes, int rank);

// The permutation from [B, others] to PyTorch's order of axes, or back.
Ints result_order(const IndexLayout& layout, int result_rank);
Ints inverse(const Ints& permutation);

// The index tensors side by side: [B..., number of indexed axes], as GatherND and ScatterND want them.
Val index_table(Ctx& c, const std::vector<IndexedAxis>& axes);

// Returns `x` in a dtype for which runtimes have NonZero: itself, or as booleans that say which numbers are not 0.
Val countable(Ctx& c, Val x);

// The positions of the true elements of a mask, one row each: [n, rank of mask].
Val mask_positions(Ctx& c, Val mask);

}  // namespace whence::convert
