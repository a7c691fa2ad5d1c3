// Weights: the tensors of a checkpoint by name. Their bytes stay in the mapped files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "annotator/checkpoint/checkpoint.h"
#include "schema/flat_map.h"
#include "schema/tensor_data.h"
#include "whence/diagnostics.h"

namespace whence::derivation {

class Weights {
 public:
  explicit Weights(std::vector<checkpoint::CheckpointTensor> tensors);
  // Throws the errors of read_checkpoint().
  static Weights read(const std::string& path, Diagnostics& notes) {
    return Weights(checkpoint::read_checkpoint(path, notes));
  }

  const std::vector<checkpoint::CheckpointTensor>& tensors() const { return tensors_; }
  // Returns the tensor with this name or alias; null if there is none.
  const TensorData* find(std::string_view name) const;

 private:
  std::vector<checkpoint::CheckpointTensor> tensors_;
  FlatMap<std::string_view, std::size_t> names_;
};

}  // namespace whence::derivation
