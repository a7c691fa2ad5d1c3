// Validation of an ONNX file: coverage by confidence, modules without a node, and checks beyond onnx's own checker.
// Reads only the structure; weights are loaded only with `full`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annotator/validation/check.h"
#include "annotator/validation/coverage.h"
#include "annotator/validation/gates.h"
#include "annotator/validation/hierarchy.h"
#include "annotator/validation/modules_without_node.h"
#include "annotator/validation/naming.h"
#include "schema/result.h"

namespace whence::validation {

struct ValidateOptions {
  Gates gates;
  std::vector<std::string> allowed;  // patterns of codes and names of checks and gates to ignore
  std::vector<Tolerance> tolerances;
  bool full = false;   // also runs onnx's checker
  std::string before;  // --conformance: the input of the tool to check; empty: none
};

struct Finding {
  const Check* check = nullptr;
  std::vector<FindingItem> items;  // never empty
  bool allowed = false;
};

struct Validation {
  std::string file;  // base name
  std::int64_t nodes = 0;
  Coverage coverage;
  bool has_sidecar = false;
  std::vector<ModuleWithoutNode> silent;  // only with a sidecar
  std::optional<Hierarchy> hierarchy;     // only with a sidecar
  NamingReport naming;
  std::optional<Baseline> baseline;  // only with a baseline gate
  std::vector<Finding> findings;
  std::vector<Shortfall> shortfalls;
  std::vector<const Check*> checks;  // checks that ran
  std::vector<const Rule*> gates;    // requested gates

  bool clean() const;  // true if every finding and shortfall is allowed
};

// `program` may be null. Errors: the errors of read_onnx_summary; usage for an unknown code in `allowed` or
// `tolerances`.
Result<Validation> validate_file(const std::string& path, const Program* program, const ValidateOptions& options);

}  // namespace whence::validation
