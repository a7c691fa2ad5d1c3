// Indexing with tensors, x[:, i, j]: the code that index and index_put share.
//
// PyTorch broadcasts the index tensors to one shape B. If the indexed axes are adjacent, B takes their place in the
// result; otherwise B comes before all other axes. GatherND and ScatterND index leading axes only, so x is transposed
// for them.
#pragma once

#include <vector>

#include "annotator/convert/ctx.h"

namespace whence::convert {

struct IndexedAxis {
  std::int64_t axis = 0;
  Val index;      // int64 or int32 positions, negative ones count from the end
  Val mask_rows;  // the positions for all axes of the mask that this index is from, [axes, n]; absent for other indices
};

// Returns the axes that `indices` (one entry per axis, absent for `:`) select from. A boolean mask over k axes becomes
// k lists of positions.
std::vector<IndexedAxis> indexed_axes(Ctx& c, const std::vector<Val>& indices);

// Returns the only index and the first axis it covers, if there is just one and it is a boolean mask.
std::optional<IndexedAxis> only_mask(Ctx& c, const std::vector<Val>& indices);

struct IndexLayout {
  Ints to_front;   // permutation of x's axes: the indexed axes, then the others in order
  int index_rank;  // rank of B
  int before;      // number of other axes before B in PyTorch's result
};
IndexLayout index_layout(Ctx& c, const std::vector<IndexedAxis>& axes, int rank);

// Returns the permutation from [B, others] to PyTorch's order of axes, or back.
Ints result_order(const IndexLayout& layout, int result_rank);
Ints inverse(const Ints& permutation);

// Stacks the index tensors along a new last axis, as GatherND and ScatterND require: [B..., number of indexed axes].
Val index_table(Ctx& c, const std::vector<IndexedAxis>& axes);

// Returns `x` in a dtype for which runtimes have NonZero: unchanged, or as booleans that are true where x is not 0.
Val nonzero_operand(Ctx& c, Val x);

// Returns the positions of the true elements of a mask, one row each: [n, rank of mask].
Val mask_positions(Ctx& c, Val mask);

}  // namespace whence::convert
