// FxNamespace: creates unique node names like torch.fx: "view", "view_1", "max_1".
// Source: torch/fx/graph.py (_Namespace.create_name) of PyTorch 2.13.
#pragma once

#include <cstdint>
#include <string>

#include "schema/flat_map.h"

namespace whence::metadata {

class FxNamespace {
 public:
  // Returns `candidate`, changed if it is already used or is a Python keyword or built-in name.
  std::string create(std::string candidate);
  void reserve(std::size_t more) { used_.reserve(used_.size() + more); }

 private:
  FlatSet<std::string> used_;
  FlatMap<std::string, std::int64_t> counts_;
};

}  // namespace whence::metadata
