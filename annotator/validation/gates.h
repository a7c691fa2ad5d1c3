// Gates: what a team asks of a file's coverage. Thresholds for the whole, a module or an operator type; modules that
// must be there; a report of before, below which coverage may not fall.
#pragma once

#include <string>
#include <vector>

#include "annotator/validation/baseline.h"
#include "annotator/validation/coverage.h"
#include "annotator/validation/silent_modules.h"

namespace whence::validation {

extern const Rule threshold_rule, required_rule, baseline_rule;

// The value of --min: "exact=95", "covered=90@encoder.layer.*" (of each module that the glob matches),
// "covered=99@op:MatMul" (of nodes of one operator type); at least that many percent of the nodes.
struct Threshold {
  std::string measure;  // "covered" or a confidence
  double percent = 0;
  std::string modules;  // glob; empty: not by module
  std::string op_type;  // empty: not by operator

  double reached(const origin::Counts& counts) const;  // percent
};
// Throws Error(usage).
Threshold parse_threshold(const std::string& text);

struct Gates {
  std::vector<Threshold> minima;
  std::vector<std::string> required;  // globs: modules that must be there and have nodes, all of them covered
  std::string baseline;               // the file before, or what `validate --json` printed of it; empty: none
};

// Something a gate asks for and the file does not have.
struct Shortfall {
  const Rule* rule = nullptr;
  std::string subject;  // module or operator type; empty: the whole file
  std::string measure;  // "covered" or a confidence
  double minimum = 0;   // percent
  double reached = 0;   // percent
  std::string missing;  // the name that nothing in the file has, with the nearest names
};

// `silent`: modules of the sidecar that have no node. `baseline`: what gates.baseline names, null for none. A glob or
// an operator type that matches nothing is a shortfall.
std::vector<Shortfall> shortfalls_of(const Coverage& coverage, const std::vector<SilentModule>& silent,
                                     const Gates& gates, const Baseline* baseline);

}  // namespace whence::validation
