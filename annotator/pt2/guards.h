// Guards: the conditions on sizes that torch.export evaluated with the example's sizes, `guards_code` of an archive.
//
// Many guards do not restrict the file: PyTorch's rules for sizes of 0 and 1, and sizes at which no operation could run
// (empty output of a convolution, wrong number of elements in a reshape). The remaining ones are decisions of the
// model: if they do not hold, the model and the file compute different results.
#pragma once

#include <set>
#include <vector>

#include "annotator/pt2/part.h"
#include "schema/program.h"
#include "schema/size_text.h"
#include "whence/diagnostics.h"

namespace whence::pt2 {

// Returns the conditions of `guards_code` on sizes of the program's inputs; other conditions are skipped.
std::vector<Constraint> read_guards(const Part& guards, const Program& program);

// Keeps the conditions that are decisions in `program`. An equality holds at few sizes, so the sizes that decide it
// become fixed; throws Error(baked_size) for a size in `promised`, which must stay dynamic. All other decisions are
// reported.
void apply_guards(std::vector<Constraint> guards, const std::set<SymbolId>& promised, const Place& place,
                  Program& program, Diagnostics& notes);

}  // namespace whence::pt2
