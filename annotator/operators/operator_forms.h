// The operators since opset 23 that replace several older nodes, and whether an export uses them. docs/opsets.md is the
// table for users; tests/docs/test_opsets.py compares the two.
#pragma once

#include <span>
#include <string_view>

namespace whence::operators {

// The choice of --operators.
enum class OperatorForms {
  runnable,  // the default: operators that ONNX Runtime 1.32 runs
  fused,     // all operators of the opset
  plain,     // no operator newer than opset 22
};

struct RecentOperator {
  std::string_view name;
  int since;  // the first opset that has it
  // The newest opset at which exports use it by default: ONNX Runtime 1.32 runs it on the CPU without warnings. Less
  // than `since` if there is none.
  int runs_until;
};

std::span<const RecentOperator> recent_operators();

// Returns true if an export at `opset` uses the operator for a matching pattern. `name` must be in the table.
bool writes(std::string_view name, int opset, OperatorForms forms);

}  // namespace whence::operators
