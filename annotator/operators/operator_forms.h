// The operators that came with opset 23 and later for what older ones write out in several nodes, and whether an export
// writes them. docs/opsets.md is the table for users; tests/docs/test_opsets.py holds the two together.
#pragma once

#include <span>
#include <string_view>

namespace whence::operators {

// The choice of --operators.
enum class OperatorForms {
  runnable,  // without the option: those that ONNX Runtime 1.32 runs
  fused,     // all that the opset has
  plain,     // none: what runtimes for opset 22 know
};

struct RecentOperator {
  std::string_view name;
  int since;  // the first opset that has it
  // The newest opset at which exports write it without being asked to: ONNX Runtime 1.32 runs it on the CPU, and says
  // nothing of it; below `since` for none.
  int runs_until;
};

std::span<const RecentOperator> recent_operators();

// True if an export at `opset` writes the operator where it finds what it stands for. `name` is of the table.
bool writes(std::string_view name, int opset, OperatorForms forms);

}  // namespace whence::operators
