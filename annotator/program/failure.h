// Failures: operators that cannot be converted to ONNX, and why. An export decides by `op`, `kind` and `may_decompose`
// what to try next; the diagnostic is for users.
#pragma once

#include <string>
#include <vector>

#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence {

enum class FailureKind {
  no_converter,
  refused_call,  // the operator has a converter, which does not accept these arguments
  other,         // unsupported by whence, or wrong in the program
  defect,        // of whence
};

struct Failure {
  std::string op;  // the operator that failed, "aten::lstm.input"; empty if no single operator failed
  FailureKind kind = FailureKind::other;
  bool may_decompose = false;  // ATen's definition of the operator may convert although its converter refuses
  Diagnostic diagnostic;
};
using Failures = std::vector<Failure>;

// Returns the failure of a node, or of no single operator if `node` is null.
Failure failure_of(const Node* node, Diagnostic diagnostic);
void add_failures(Failures& failures, const Node& node, const Error& error);

Diagnostics diagnostics_of(const Failures& failures);

}  // namespace whence
