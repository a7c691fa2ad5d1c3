#include "annotator/operators/operator_forms.h"

#include <algorithm>

namespace whence::operators {
namespace {

constexpr int newest = 28;

// Swish and SwiGLU have no kernel: ONNX Runtime inlines their ONNX function, and has a function of Swish only for opset
// 24. For each TensorScatter it warns at every run that the cache was copied, unless the caller binds the input and
// output cache to one buffer.
constexpr RecentOperator table[] = {
    {"Attention", 23, newest},       {"CumProd", 26, newest}, {"RMSNormalization", 23, newest},
    {"RotaryEmbedding", 23, newest}, {"SwiGLU", 28, 27},      {"Swish", 24, 24},
    {"TensorScatter", 24, 23},
};

}  // namespace

std::span<const RecentOperator> recent_operators() { return table; }

bool writes(std::string_view name, int opset, OperatorForms forms) {
  if (forms == OperatorForms::plain) return false;
  const auto* entry = std::ranges::find(table, name, &RecentOperator::name);
  if (entry == std::end(table) || opset < entry->since) return false;
  return forms == OperatorForms::fused || opset <= entry->runs_until;
}

}  // namespace whence::operators
