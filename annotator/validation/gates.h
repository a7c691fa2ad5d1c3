// Gates: what a team asks of a file's coverage. Thresholds for the whole, a module or an operator type; modules that
// must be there; a report of before, below which coverage may not fall.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "annotator/validation/baseline.h"
#include "annotator/validation/coverage.h"
#include "annotator/validation/silent_modules.h"

namespace whence::validation {

extern const Rule threshold_rule, required_rule, baseline_rule;

// The value of --min: "exact=95", "covered=90@encoder.layer.*" (of each module that the pattern matches),
// "covered=99@op:MatMul" (of nodes of each operator type that it matches); at least that many percent of the nodes.
struct Threshold {
  std::string measure;  // "covered" or a confidence
  double percent = 0;
  std::string modules;  // pattern of paths (text/patterns.h); empty: not by module
  std::string op_type;  // pattern of names; empty: not by operator

  std::int64_t nodes(const origin::Counts& counts) const;  // nodes that the measure counts
  double reached(const origin::Counts& counts) const;      // percent
};
// Throws Error(usage).
Threshold parse_threshold(const std::string& text);

// The value of --tolerance: "3" (as many findings of each check), "0.5%" (in percent of the file's nodes), "V503=2" (of
// one check, by code or name). What a check finds does not count while it is no more than that.
struct Tolerance {
  std::string rule;  // pattern of codes and names (text/patterns.h); empty: every check
  double amount = 0;
  bool percent = false;

  bool covers(const Rule& of, std::int64_t findings, std::int64_t nodes) const;
};
// Throws Error(usage).
Tolerance parse_tolerance(const std::string& text);

struct Gates {
  std::vector<Threshold> minima;
  std::vector<std::string>
      required;          // patterns of paths: modules that must be there and have nodes, all of them covered
  std::string baseline;  // the file before, or what `validate --json` printed of it; empty: none
};

// Something a gate asks for and the file does not have.
struct Shortfall {
  const Rule* rule = nullptr;
  std::string subject;                 // module or operator type; empty: the whole file
  std::string measure;                 // "covered" or a confidence
  double minimum = 0;                  // percent
  double reached = 0;                  // percent
  std::optional<std::int64_t> nodes;   // too few of the measure; none where no number of nodes would do
  std::vector<std::string> modules{};  // against a baseline: the modules that lost most
  std::string message;
  bool allowed = false;  // by --allow or --tolerance
};

// `silent`: modules of the sidecar that have no node. `baseline`: what gates.baseline names, null for none. A glob or
// an operator type that matches nothing is a shortfall, and so is a required module of `silent` or of the baseline that
// has no node. Against a baseline one cause is one shortfall: the nodes that
// became unknown, and those that became less sure. Nodes that are gone are none, since nothing of them is left to be
// known.
std::vector<Shortfall> shortfalls_of(const Coverage& coverage, const std::vector<SilentModule>& silent,
                                     const Gates& gates, const Baseline* baseline);

}  // namespace whence::validation
