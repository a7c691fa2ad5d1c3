#include "annotator/derivation/weights.h"

#include <utility>

namespace whence::derivation {

Weights::Weights(std::vector<checkpoint::CheckpointTensor> tensors) : tensors_(std::move(tensors)) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    names_.emplace(tensors_[i].name, i);
    for (const std::string& alias : tensors_[i].aliases) names_.emplace(alias, i);
  }
}

const TensorData* Weights::find(std::string_view name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : &tensors_[found->second].data;
}

}  // namespace whence::derivation
