// Simplification: the same computation with fewer nodes, each still with its origin.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "annotator/graph/graph.h"
#include "annotator/operators/operator_forms.h"

namespace whence::simplify {

struct SimplifyOptions {
  int opset = graph::default_opset;
  operators::OperatorForms operators = operators::OperatorForms::runnable;
  // The module call that each recorded operation belongs to. If empty, nodes that compute are never shared.
  std::vector<ScopeId> scopes = {};
  bool fold = true;  // weights are transposed, folded and merged at export
};

// A pattern that a rule recognised but did not change.
struct Refusal {
  std::string rule;
  std::string op_type;
  origin::NodeOrigin origin;
  std::string why;
};

struct SimplifyReport {
  std::map<std::string, std::int64_t> changes;  // indexed by rule
  std::vector<Refusal> refusals;                // one per pattern
};

// Applies all rules until none changes anything, to bodies first. Compacts the graph before and after: topological
// order, no dead nodes. Cost: n log n.
SimplifyReport simplify(graph::Graph& graph, const SimplifyOptions& options);

}  // namespace whence::simplify
