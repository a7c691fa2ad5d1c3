// Helpers for the last axis of a value and for small constants.
#pragma once

#include <vector>

#include "annotator/program/tensor_values.h"
#include "annotator/simplify/rewriter.h"

namespace whence::simplify {

using Dims = std::vector<Dim>;

inline const Dims* dims_at(const Rewriter& r, graph::GraphValueId value) {
  const auto& dims = r.value(value).dims;
  return dims && !dims->empty() ? &*dims : nullptr;
}

// Returns the size of the last axis; -1 if it is dynamic or unknown.
inline std::int64_t width(const Rewriter& r, graph::GraphValueId value) {
  const Dims* dims = dims_at(r, value);
  return dims != nullptr && dims->back().is_static() ? dims->back().size : -1;
}

inline bool is_last_axis(const Rewriter& r, graph::GraphValueId of, std::int64_t axis) {
  const Dims* dims = dims_at(r, of);
  return dims != nullptr && (axis == -1 || axis == static_cast<std::int64_t>(dims->size()) - 1);
}

inline graph::GraphValueId ints(Rewriter& r, const std::vector<std::int64_t>& numbers,
                                const origin::NodeOrigin& origin) {
  return r.constant(program::integer_vector(numbers), origin);
}

}  // namespace whence::simplify
