#include "annotator/derivation/equal_parameters.h"

#include "annotator/derivation/element_views.h"

namespace whence::derivation {

void list_equals(ParameterStep& step, const Weights& weights, const NameFit& fit) {
  const TensorData* const data = weights.find(step.name);
  if (data == nullptr || step.is_computed()) return;
  for (std::size_t i = 0; i < weights.tensors().size(); ++i) {
    const auto& other = weights.tensors()[i];
    const bool is_equal = !weights.is_computed(i) && &other.data != data && other.data.dtype == data->dtype &&
                          other.data.shape == data->shape && text_of(other.data) == text_of(*data);
    if (!is_equal) continue;
    step.equals.push_back(other.name);
    step.same_bytes.push_back(other.name);
    step.is_certain = step.is_certain && fit(other.name) < fit(step.name);
  }
}

}  // namespace whence::derivation
