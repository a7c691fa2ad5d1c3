// In-place operators and the functional form of each: add_(x, y) writes add(x, y) to x, and add.out(x, y, out=z) to z.
#pragma once

#include <optional>

#include "annotator/lower/pass.h"

namespace whence::lower {

// Returns true if the operator writes to its argument `self`: aten::relu_, aten::index_put_, aten::__iand__; or to its
// only argument `out`: aten::arange.start_out.
bool is_in_place(const Node& node);

// Returns true for an operator outside ATen that returns nothing. Only its schema, which an archive does not contain,
// states which arguments it writes to.
bool only_writes(const Node& node);

// Returns the argument that an in-place operator writes to.
const Argument& written_argument(const Node& in_place);

// The values whose memory the results share, as views of them or because the operator writes to one.
struct SharedMemory {
  std::vector<ValueId> values;  // indexed by result
  bool written = false;
};
std::optional<SharedMemory> shared_memory(const Program& program, const Node& node);

// The functional form of a write: the node, without outputs yet, that computes the new content of `self`. nullopt if
// the new content is an existing value, `as_is`: detach_(x) -> x itself, copy_(x, src) -> src if dtype and shape are
// equal.
struct Written {
  std::optional<Node> node;
  ValueId as_is = none_id;
};
Written functional_form(const Program& program, const Node& in_place);

// Returns true if the in-place operator of this key, "aten::relu_", "aten::bernoulli_.float", has a functional form
// with a convertible overload.
bool has_functional_form(const std::string& key);

}  // namespace whence::lower
