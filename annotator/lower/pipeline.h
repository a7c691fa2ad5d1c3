// Lower: the program as PyTorch recorded it, made into one that converters can take node by node. No writes, no
// aliases, no settled branches, nothing that computes what is known or what is not read.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "annotator/program/failure.h"
#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence::lower {

struct Composites;

// A lowered copy; `program` stays as it is (tensor bytes are shared). What cannot be lowered is added to `failures`:
// the copy is then only good for finding further failures. `notes` tells of state that the model writes
// (state_not_kept). `untouched`: operators that are converted elsewhere, "aten::dropout" or "aten::add.Tensor". They
// are neither dropped nor written as other operators. `fold`: tensors that PyTorch computed while recording become
// constants. `composites`: operators to open, see composites.h.
Program lower(const Program& program, Failures& failures, Diagnostics& notes,
              const std::set<std::string>& untouched = {}, bool fold = true, Composites* composites = nullptr);

// A copy in which a branch whose sides leave tensors of different ranks leaves that of the side which the example
// takes, with a note; nothing for a program without one. For a program that cannot be converted otherwise.
std::optional<Program> with_example_ranks(const Program& program, Diagnostics& notes);

// In a program just recorded: kernels that do the work of several operators become those operators, each an operation
// with a number of its own, in the module whose weights it reads. What cannot be written out stays.
void write_out_kernels(Program& program);

// The passes, each in its own file; called in pipeline.cpp's order, tests call them one by one.
struct Lowering;
void settle_branches(Lowering& lowering);
void open_composites(Lowering& lowering);
void open_filled_diagonals(Lowering& lowering);
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
