// How well a parameter's name fits a tensor of a file: by the tensor's own name, the modules of the nodes that read it,
// and the modules of the other tensors that these nodes read. Chooses between parameters with equal bytes.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "annotator/derivation/file_tensors.h"

namespace whence::derivation {

// Returns the module of a parameter: "encoder.0" of "encoder.0.weight".
std::string_view module_of_parameter(std::string_view parameter);

class TensorNames {
 public:
  // `tensor` must outlive this object.
  explicit TensorNames(const FileTensor& tensor);
  void add_module(std::string_view module) { neighbours_.emplace(module); }

  int fit(std::string_view parameter) const;

 private:
  std::string_view name_;
  std::set<std::string, std::less<>> readers_;     // modules of the nodes that read the tensor
  std::set<std::string, std::less<>> neighbours_;  // modules of other tensors that they read
};

}  // namespace whence::derivation
