// Validation of an ONNX file: how much of it has a module and how surely, which modules have no node, and the checks
// that onnx's own checker does not make. Reads structure only; weights stay on disk unless `full` is asked for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annotator/validation/check.h"
#include "annotator/validation/coverage.h"
#include "annotator/validation/gates.h"
#include "annotator/validation/hierarchy.h"
#include "annotator/validation/naming.h"
#include "annotator/validation/silent_modules.h"
#include "schema/result.h"

namespace whence::validation {

struct ValidateOptions {
  Gates gates;
  std::vector<std::string> allowed;  // patterns of codes and names of checks and gates whose findings do not count
  std::vector<Tolerance> tolerances;
  bool full = false;   // run onnx's checker too
  std::string before;  // the file that a tool made this one from, to check the tool; empty: none
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
  std::vector<SilentModule> silent;    // with a sidecar only
  std::optional<Hierarchy> hierarchy;  // likewise
  NamingReport naming;
  std::optional<Baseline> baseline;  // when one was asked for
  std::vector<Finding> findings;
  std::vector<Shortfall> shortfalls;
  std::vector<const Check*> checks;  // that ran
  std::vector<const Rule*> gates;    // that were asked for

  bool clean() const;  // no finding that counts, nothing short of a gate
};

// `program` may be null. Errors: those of read_onnx_summary; usage for an unknown code in `allowed` or
// `tolerances`.
Result<Validation> validate_file(const std::string& path, const Program* program, const ValidateOptions& options);

}  // namespace whence::validation
