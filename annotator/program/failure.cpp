#include "annotator/program/failure.h"

#include "schema/operator_facts.h"

namespace whence {

namespace {

// Returns true for reshapes and casts, which copy or not depending on the tensors. ATen would decide by the tensors of
// the trace.
bool is_copy_or_not(const OperatorFacts& facts) {
  const bool cast = facts.memory == ResultMemory::argument && facts.identity == Identity::same_dtype;
  return facts.memory == ResultMemory::by_strides || cast;
}

FailureKind kind_of(Code code) {
  switch (code) {
    case Code::no_converter:
      return FailureKind::no_converter;
    case Code::converter_refused:
      return FailureKind::refused_call;
    case Code::internal:
      return FailureKind::defect;
    default:
      return FailureKind::other;
  }
}

}  // namespace

Failure failure_of(const Node* node, Diagnostic diagnostic) {
  const FailureKind kind = kind_of(diagnostic.code);
  if (node == nullptr) return {"", kind, false, std::move(diagnostic)};
  const bool refused = kind == FailureKind::refused_call || diagnostic.code == Code::unsupported_feature;
  const bool may_decompose = refused && !is_copy_or_not(facts_of(node->target));
  return {qualified(*node), kind, may_decompose, std::move(diagnostic)};
}

void add_failures(Failures& failures, const Node& node, const Error& error) {
  for (const Diagnostic& each : error.diagnostics()) failures.push_back(failure_of(&node, each));
}

Diagnostics diagnostics_of(const Failures& failures) {
  Diagnostics found;
  for (const Failure& each : failures) found.push_back(each.diagnostic);
  return found;
}

}  // namespace whence
