// Finds nodes that may belong to a module beside those that are known to, so that `extract` does not cut out half of a
// module as if it were all of it.
#pragma once

#include <string>
#include <vector>

#include "annotator/functions/region.h"

namespace whence::functions {

struct UnclearParts {
  // Nodes that stand for operations of the module and for others outside of it, "Conv '/stem/Conv' of stem".
  std::vector<std::string> fused;
  // Nodes beside the module's of which only an enclosing module is known, or nothing at all.
  std::vector<std::string> undecided;
  // Nodes in the region that show several calls of the module, where the file does not number calls.
  std::vector<std::string> of_several_calls;

  bool empty() const { return fused.empty() && undecided.empty() && of_several_calls.empty(); }
};

// `calls`: the calls whose nodes the region holds; empty when the module `path` has none of its own. A node beside the
// region is not undecided where whence recorded the module itself, so that all of its operations are known, nor where
// it is known to serve several modules.
UnclearParts unclear_parts(const WorkGraph& graph, const std::string& path, const std::vector<CallIndex>& calls,
                           const Region& region);

}  // namespace whence::functions
