// ParameterContent: finds the parameters of a reference that an initializer holds, by digests of its bytes: unchanged,
// transposed, as float16 or bfloat16, as one of several blocks (a fused query, key and value; both directions of a
// recurrent layer), with recurrent gates in ONNX's order, or as one piece of a weight that a tool split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "annotator/match/reference.h"
#include "annotator/match/structure.h"
#include "annotator/match/tensor_sources.h"

namespace whence::match {

class ParameterContent {
 public:
  explicit ParameterContent(const Reference& reference);

  bool empty() const { return digests_.empty(); }

  // Reads the tensor's bytes only if their size fits a parameter or complete blocks of one. Safe from any thread.
  std::vector<TensorSource> find(const StructureTensor& tensor) const;

  // Finds consecutive tensors of one size that together are a parameter, and adds the parameter to `found`.
  void find_split(const std::vector<StructureTensor>& tensors, std::vector<std::vector<TensorSource>>& found) const;

 private:
  friend class ContentSearch;

  void add(ParameterIndex parameter, const std::string& digest, std::size_t element_size,
           const std::vector<std::int64_t>& dims);

  std::unordered_map<std::string, std::vector<ParameterIndex>> digests_;
  std::set<std::size_t> sizes_;  // sizes in bytes of parameters with a digest
  std::map<std::size_t, std::set<std::pair<std::int64_t, std::int64_t>>> matrices_;  // rows, columns by element size
  std::map<std::size_t, std::set<std::int64_t>> vectors_;                            // lengths by element size
};

}  // namespace whence::match
