#include "annotator/derivation/equal_parameters.h"

#include <algorithm>
#include <iterator>

#include "annotator/derivation/element_views.h"

namespace whence::derivation {

void list_equals(ParameterStep& step, const Weights& weights, const NameFit& fit) {
  const TensorData* const data = weights.find(step.name);
  if (data == nullptr) return;
  for (std::size_t i = 0; i < weights.tensors().size(); ++i) {
    const auto& other = weights.tensors()[i];
    const bool is_equal = weights.is_computed(i) == step.is_computed() && &other.data != data &&
                          other.data.dtype == data->dtype && other.data.shape == data->shape &&
                          text_of(other.data) == text_of(*data);
    if (!is_equal) continue;
    if (step.is_computed()) {
      std::ranges::copy(weights.step_of(i, step.dtype).readers, std::back_inserter(step.readers));
      continue;
    }
    step.equals.push_back(other.name);
    step.same_bytes.push_back(other.name);
    step.is_certain = step.is_certain && fit(other.name) < fit(step.name);
  }
}

}  // namespace whence::derivation
