// Effects: which operations of a program have no effect on its results, so that exporters and tools drop them: what no
// output reads, and a Softmax over a single element, which gives 1 whatever it reads, with all that only it needs.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "annotator/derivation/program_forms.h"

namespace whence::derivation {

std::set<std::int32_t> operations_without_effect(const Program& program, const std::vector<ProgramForm>& forms);

}  // namespace whence::derivation
