// Weights: the tensors of a checkpoint by name. Their bytes stay in the mapped files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/checkpoint/checkpoint.h"
#include "annotator/derivation/computed_values.h"
#include "annotator/derivation/expression.h"
#include "annotator/derivation/low_rank.h"
#include "schema/flat_map.h"
#include "schema/tensor_data.h"
#include "whence/diagnostics.h"

namespace whence::derivation {

class Weights {
 public:
  explicit Weights(std::vector<checkpoint::CheckpointTensor> tensors);
  // Reads a checkpoint. Tied parameters are one tensor for each of their names. `program` may be null; otherwise
  // tensors get its names (checkpoint_names.h). `prefix`: that of another checkpoint of the same model; nullopt if
  // unknown. Throws the errors of read_checkpoint().
  static Weights read(const std::string& path, const Program* program, const std::optional<std::string>& prefix,
                      Diagnostics& notes);
  // Returns what was removed from the names of the program's parameters.
  const std::string& prefix() const { return prefix_; }

  // Throws Error(weights_mismatch) for a parameter of the adapter that is unknown or has other sizes. `path`: the
  // adapter's, for the message.
  void require_fit(const Adapter& adapter, const std::string& path) const;
  // Adds the low-rank products of an adapter to the parameters that it names, and replaces the parameters that it holds
  // complete. Requires require_fit().
  void adapt(Adapter adapter);

  // Adds what the program computes from parameters alone (computed_values.h), as tensors with names of their own. After
  // adapt().
  void compute(const Program& program);
  bool is_computed(std::size_t index) const { return index >= stored_; }
  // Returns the step that reads a tensor, by its index, in this dtype.
  ParameterStep step_of(std::size_t index, DType dtype) const;

  // Returns the tensors of the checkpoint, then the computed ones.
  const std::vector<checkpoint::CheckpointTensor>& tensors() const { return tensors_; }
  // Returns the tensor of the checkpoint with this name or alias; null if there is none.
  const TensorData* find(std::string_view name) const;
  // Returns the name of the tensor with this name or alias. Requires find(name).
  const std::string& tensor_name(std::string_view name) const { return tensors_[entry(name).value()].name; }
  // Lets the kernel drop the pages of tensors that were read; they are read again when they are needed.
  void release() const;
  // Returns the tensor with the adapter's changes. Requires find(name). Releases what was read before, at intervals.
  TensorData value(std::string_view name) const;

 private:
  // Returns the index of the tensor with this name, alias or name before its prefix was removed.
  std::optional<std::size_t> entry(std::string_view name) const;
  std::size_t index_of(std::string_view name) const;

  std::vector<checkpoint::CheckpointTensor> tensors_;
  FlatMap<std::string, std::size_t> names_;
  std::string prefix_;
  std::size_t stored_ = 0;                      // tensors of the checkpoint
  mutable std::uint64_t read_ = 0;              // bytes since the last release()
  std::vector<ComputedValue> computed_;         // of the tensors after them, without data
  std::map<std::size_t, LowRank> adapters_;     // by index of the tensor
  std::map<std::size_t, TensorData> replaced_;  // by index of the tensor
};

// Removes the prefix of a wrapper from the names of the program's parameters, `model.` of a recorded module that holds
// the checkpoint's model, if the checkpoint has all of them without it.
void remove_wrapper(Program& program, const Weights& weights);

}  // namespace whence::derivation
