// Lowering: rewrites the program that PyTorch recorded so that it can be converted node by node: no writes, no aliases,
// no branches with a known condition, no unused or constant computations.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "annotator/program/failure.h"
#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence::lower {

struct Composites;

// Returns a lowered copy; `program` is unchanged (tensor bytes are shared). Operations that cannot be lowered are added
// to `failures`; the copy is then only good for finding further failures. `notes` receives warnings about state that
// the model writes (state_not_kept). `untouched`: operators with another converter, "aten::dropout" or
// "aten::add.Tensor", which are neither dropped nor rewritten. `fold`: tensors that PyTorch computed while recording
// become constants. `composites`: operators to decompose, see composites.h.
Program lower(const Program& program, Failures& failures, Diagnostics& notes,
              const std::set<std::string>& untouched = {}, bool fold = true, Composites* composites = nullptr);

// Returns a copy in which a branch whose sides return tensors of different ranks returns the rank of the side that the
// example takes, with a note; nullopt for a program without such a branch. For a program that fails to convert
// otherwise.
std::optional<Program> with_example_ranks(const Program& program, Diagnostics& notes);

// Decomposes the fused kernels of a program just recorded. Each resulting operator is an operation with its own number,
// in the module whose weights it reads. Kernels that cannot be decomposed stay.
void write_out_kernels(Program& program);

// The passes, each in its own file, called in the order of pipeline.cpp. Tests call them one by one.
struct Lowering;
void settle_branches(Lowering& lowering);
void decompose_composites(Lowering& lowering);
void expand_filled_diagonals(Lowering& lowering);
void functionalize(Lowering& lowering);
void views_for_copies(Lowering& lowering);
void pad_packed_sequences(Lowering& lowering);
void decompose(Lowering& lowering);
void complex_as_pairs(Lowering& lowering);
void drop_no_ops(Lowering& lowering);
void use_constants(Lowering& lowering);
void join_branches(Lowering& lowering);
void drop_dead_code(Lowering& lowering);

}  // namespace whence::lower
