// Finds the state that a program writes to and that outlives a run: its parameters, buffers and inputs. Reads a program
// before functionalisation and does not change it.
#pragma once

#include <vector>

#include "schema/program.h"

namespace whence::lower {

struct WrittenState {
  ValueId state = none_id;  // the parameter, buffer or input
  ValueId holds = none_id;  // the result of the last operation that writes to it, or to a part of it
};

// Sorted by value. Ignores writes in bodies of branches and loops.
std::vector<WrittenState> written_state(const Program& program);

}  // namespace whence::lower
