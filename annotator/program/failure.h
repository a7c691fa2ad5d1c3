// Failures: operators that could not be written as ONNX, and why. An export decides by `op` and `may_open` what to try
// next; the diagnostic is for users.
#pragma once

#include <string>
#include <vector>

#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence {

struct Failure {
  std::string op;         // the operator that failed, "aten::lstm.input"; empty if none is to blame
  bool may_open = false;  // written as what ATen defines it by, the operator may do what its converter refuses
  Diagnostic diagnostic;
};
using Failures = std::vector<Failure>;

Failure failure_of(const Node& node, Diagnostic diagnostic);
void add_failures(Failures& failures, const Node& node, const Error& error);

Diagnostics diagnostics_of(const Failures& failures);

}  // namespace whence
