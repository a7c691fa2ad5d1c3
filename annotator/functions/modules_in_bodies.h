// Finds modules whose nodes are all in branches and loop bodies, where no region can be cut, for error messages.
#pragma once

#include <map>
#include <string>

#include "annotator/functions/work_graph.h"

namespace whence::functions {

struct ModuleInBody {
  std::string type;    // class, as PyTorch's keys have it; may be empty
  std::string holder;  // "If '/gate/If'", the outermost node that holds it
};

// Returns, by qualified name, the modules that have no node outside of bodies.
std::map<std::string, ModuleInBody> modules_in_bodies(const WorkGraph& graph);

}  // namespace whence::functions
