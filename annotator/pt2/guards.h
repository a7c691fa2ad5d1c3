// Guards are the conditions on sizes that torch.export met and decided by the example: `guards_code` of an archive.
//
// Many say nothing of the file: PyTorch's rules for sizes of 0 and 1, and sizes at which no operation could run
// (a convolution's output would be empty, a reshape's elements would not fit). What is left are decisions of the model:
// elsewhere it computes something else than the file.
#pragma once

#include <set>
#include <vector>

#include "annotator/pt2/part.h"
#include "schema/program.h"
#include "schema/size_text.h"
#include "whence/diagnostics.h"

namespace whence::pt2 {

// The conditions of `guards_code`, over the sizes of the program's inputs; those that are none on sizes are left out.
std::vector<Constraint> read_guards(const Part& guards, const Program& program);

// Keeps in `program` those of its conditions that are decisions. An equality holds at the sizes of the example, or few:
// a size that it concerns becomes fixed. One in `promised` cannot: throws Error(baked_size). What else there is, is
// reported.
void apply_guards(std::vector<Constraint> guards, const std::set<SymbolId>& promised, const Place& place,
                  Program& program, Diagnostics& notes);

}  // namespace whence::pt2
