// Simplify: the same computation with fewer nodes, and every node still knowing where it comes from.
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
  // The call of a module that each recorded operation is part of. Empty: no node that computes is shared.
  std::vector<ScopeId> scopes = {};
  bool fold = true;  // weights are laid out, computed with and merged into others while exporting
};

// A pattern that a rule recognised and left alone.
struct Refusal {
  std::string rule;
  std::string op_type;
  origin::NodeOrigin origin;
  std::string why;
};

struct SimplifyReport {
  std::map<std::string, std::int64_t> changes;  // by rule
  std::vector<Refusal> refusals;                // each pattern once
};

// Applies all rules until none applies, to bodies first. Compacts the graph before and after: topological, nothing
// dead. Cost: n log n.
SimplifyReport simplify(graph::Graph& graph, const SimplifyOptions& options);

}  // namespace whence::simplify
