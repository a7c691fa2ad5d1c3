// Coverage: the number of nodes with a module, by confidence. The five confidences are always reported separately.
// `covered` is exact + matched + inferred: a node is not covered if only an enclosing module is known (ancestor).
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
  // By module, depth first; counts include the modules below. Nodes without a module are not counted.
  std::vector<std::pair<std::string, origin::Counts>> modules;
  std::vector<std::pair<std::string, origin::Counts>> operators;  // by op_type ("domain::type" outside ai.onnx), sorted
  std::int64_t by_exporter = 0;  // nodes whose module comes from the exporter's own keys
  std::vector<std::pair<std::string, std::string>> unattributed;  // node, op_type; in file order
};

Coverage coverage_of(const CheckContext& context);

}  // namespace whence::validation
