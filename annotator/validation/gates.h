// Gates: requirements on a file's coverage. Thresholds for the whole file, a module or an operator type; modules that
// must be present; a baseline below which coverage must not fall.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "annotator/validation/baseline.h"
#include "annotator/validation/coverage.h"
#include "annotator/validation/modules_without_node.h"

namespace whence::validation {

extern const Rule threshold_rule, required_rule, baseline_rule;

// The value of --min, a minimum percentage of nodes: "exact=95", "covered=90@encoder.layer.*" (in each module that the
// pattern matches), "covered=99@op:MatMul" (for each operator type that the pattern matches).
struct Threshold {
  std::string measure;  // "covered" or a confidence
  double percent = 0;
  std::string modules;  // pattern of paths (text/patterns.h); empty: no limit to modules
  std::string op_type;  // pattern of names; empty: no limit to operator types

  std::int64_t nodes(const origin::Counts& counts) const;  // nodes that the measure counts
  double reached(const origin::Counts& counts) const;      // percent
};
// Parses the option's value. Throws Error(usage).
Threshold parse_threshold(const std::string& text);

// The value of --tolerance: "3" (findings of each check), "0.5%" (percentage of the file's nodes), "V503=2" (findings
// of one check, by code or name). Findings of a check are ignored up to this number.
struct Tolerance {
  std::string rule;  // pattern of codes and names (text/patterns.h); empty: every check
  double amount = 0;
  bool percent = false;

  bool covers(const Rule& checked, std::int64_t findings, std::int64_t nodes) const;
};
// Parses the option's value. Throws Error(usage).
Tolerance parse_tolerance(const std::string& text);

struct Gates {
  std::vector<Threshold> minima;
  std::vector<std::string> required;  // patterns of paths: modules that must have nodes, all of them covered
  std::string baseline;               // an earlier ONNX file, or its report by `validate --json`; empty: none
  std::string attested;               // a statement of `whence attest`; empty: none
};

// A requirement of a gate that the file does not meet.
struct Shortfall {
  const Rule* rule = nullptr;
  std::string subject;                 // module or operator type; empty: the whole file
  std::string measure;                 // "covered" or a confidence
  double minimum = 0;                  // percent
  double reached = 0;                  // percent
  std::optional<std::int64_t> nodes;   // number of missing nodes; nullopt if the shortfall is not a number of nodes
  std::vector<std::string> modules{};  // with a baseline: the modules with the largest losses
  std::string message;
  bool allowed = false;  // by --allow or --tolerance
};

// `silent`: modules of the sidecar without a node. `baseline`: the content of gates.baseline; null for none. A glob or
// operator type without a match is a shortfall. So is a required module that has no node in the file but is in `silent`
// or in the baseline. A baseline yields at most two shortfalls: nodes that became unknown, and nodes that became less
// sure. Nodes that were removed do not count.
std::vector<Shortfall> shortfalls_of(const Coverage& coverage, const std::vector<ModuleWithoutNode>& silent,
                                     const Gates& gates, const Baseline* baseline);

}  // namespace whence::validation
