// ParameterContent: finds the parameters of a reference that an initializer holds, by digests of its bytes: unchanged,
// transposed, as float16 or bfloat16, as one of several blocks (a fused query, key and value; both directions of a
// recurrent layer), with recurrent gates in ONNX's order, or as one piece of a weight that a tool split. Also finds a
// 16-bit parameter that was widened to float32, which is exact.
//
// Content that many constants have is weak evidence. Tensors of equal elements (a new bias, the scale of a new norm)
// are compared only as a complete tensor with the parameter's sizes, and marked. Short or regular lists of integers are
// sizes, axes and positions, and are not compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annotator/match/reference.h"
#include "annotator/match/structure.h"
#include "annotator/match/tensor_sources.h"
#include "schema/dtype.h"
#include "schema/flat_map.h"

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

  void add(ParameterIndex parameter, const std::string& digest, DType dtype, const std::vector<std::int64_t>& dims);
  std::vector<TensorSource> find_as(DType dtype, std::string_view bytes, const std::vector<std::int64_t>& dims) const;
  bool has_same_sizes(ParameterIndex parameter, const std::vector<std::int64_t>& dims) const;

  const Reference& reference_;
  std::size_t max_alike_;  // parameters of equal content; if there are more, the content is no evidence
  std::map<DType, FlatMap<std::string_view, std::vector<ParameterIndex>>> digests_;
  std::map<DType, std::set<std::size_t>> sizes_;  // sizes in bytes of parameters with a digest
  std::map<DType, std::set<std::pair<std::int64_t, std::int64_t>>> matrices_;  // rows, columns
  std::map<DType, std::set<std::int64_t>> vectors_;                            // lengths
};

}  // namespace whence::match
