// Finds nodes that may belong to a module in addition to its known nodes, so that `extract` does not write half of a
// module as if it were complete.
#pragma once

#include <string>
#include <vector>

#include "annotator/functions/region.h"

namespace whence::functions {

struct UnclearParts {
  // Nodes that belong to the module and to modules outside of it: "Conv '/stem/Conv' of stem".
  std::vector<std::string> fused;
  // Nodes next to the module's nodes for which only an enclosing module is known, or no module.
  std::vector<std::string> undecided;
  // Nodes in the region that indicate several calls of the module, if the file does not number calls.
  std::vector<std::string> of_several_calls;

  bool empty() const { return fused.empty() && undecided.empty() && of_several_calls.empty(); }
};

// `calls`: the calls whose nodes are in the region; empty if the module `path` has no node of its own. A node next to
// the region is not undecided if it is known to serve several modules, or if whence recorded the module itself: then
// all operations of the module are known.
UnclearParts unclear_parts(const WorkGraph& graph, const std::string& path, const std::vector<CallIndex>& calls,
                           const Region& region);

}  // namespace whence::functions
