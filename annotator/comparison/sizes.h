// Sizes: values of a file that depend on sizes and constants alone, and elements of parameters that constants pick.
#pragma once

#include <string_view>
#include <vector>

#include "annotator/comparison/node_verdicts.h"
#include "annotator/derivation/derive.h"
#include "annotator/derivation/file_tensors.h"
#include "schema/flat_map.h"

namespace whence::comparison {

class Sizes {
 public:
  Sizes(const derivation::FileTensors& tensors, const std::vector<derivation::Derivation>& derivations);

  // Returns `size` for a node that computes sizes, `movement` for one that picks or moves elements of parameters, and
  // else `unaccounted`. Nodes come in order: a node after those that it reads from.
  NodeVerdict add(const onnx_file::OnnxNode& node);

 private:
  FlatSet<std::string_view> sizes_, parameters_;
  FlatSet<std::string_view> ranges_;  // of activations: a tool may have measured values that depend on sizes alone
};

}  // namespace whence::comparison
