// Coverage: how many nodes have a module, by how sure that is. The five confidences always stand side by side;
// `covered` is exact + matched + inferred, and a node whose module is only an enclosing one is not covered.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "annotator/metadata/attribution.h"
#include "annotator/origin/counts.h"
#include "annotator/validation/check.h"

namespace whence::validation {

struct Coverage {
  origin::Counts all;
  std::vector<std::pair<std::string, origin::Counts>>
      modules;  // a module and all below it, depth first; nodes with a module
  std::vector<std::pair<std::string, origin::Counts>> operators;  // by op_type ("domain::type" outside ai.onnx), sorted
  std::int64_t by_pytorch = 0;                                    // nodes whose module is read from PyTorch's own keys
  std::vector<std::pair<std::string, std::string>> unattributed;  // node, op_type; in file order
};

Coverage coverage_of(const CheckContext& context);

}  // namespace whence::validation
