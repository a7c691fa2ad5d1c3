// Effects: which operations of a program have no effect on its results. A Softmax over a single element gives 1
// whatever it reads, so tools drop it with all that only it needs.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "annotator/derivation/program_forms.h"

namespace whence::derivation {

std::set<std::int32_t> operations_without_effect(const std::vector<ProgramForm>& forms);

}  // namespace whence::derivation
