// Finds modules that have nodes only in branches and loop bodies, which are not cut; for error messages.
#pragma once

#include <map>
#include <string>

#include "annotator/functions/work_graph.h"

namespace whence::functions {

struct ModuleInBody {
  std::string type;    // class, as PyTorch's keys have it; may be empty
  std::string holder;  // the outermost node around its nodes: "If '/gate/If'"
};

// Returns, by qualified name, the modules that have no node outside of bodies.
std::map<std::string, ModuleInBody> modules_in_bodies(const WorkGraph& graph);

}  // namespace whence::functions
