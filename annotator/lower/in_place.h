// In-place operators and the functional form of each: add_(x, y) writes add(x, y) to x, and add.out(x, y, out=z) to z.
#pragma once

#include <optional>

#include "annotator/lower/pass.h"

namespace whence::lower {

// True if the operator writes to its argument `self`: aten::relu_, aten::index_put_, aten::__iand__; or to the one
// argument `out`: aten::arange.start_out.
bool is_in_place(const Node& node);

// An operator that is not ATen's and returns nothing. What it writes to stands in its own schema, which an archive does
// not hold.
bool only_writes(const Node& node);

// The argument that it writes to.
const Argument& written_argument(const Node& in_place);

// The values whose memory the results share, as views of them or because the operator writes to one.
struct SharedMemory {
  std::vector<ValueId> values;  // by result
  bool written = false;
};
std::optional<SharedMemory> shared_memory(const Program& program, const Node& node);

// The functional form of a write: the node that computes what the write puts into `self`, without outputs yet; nullopt
// when that is simply the value `as_is` names: detach_(x) -> x itself, copy_(x, src) -> src where dtype and shape are
// equal.
struct Written {
  std::optional<Node> node;
  ValueId as_is = none_id;
};
Written functional_form(const Program& program, const Node& in_place);

// True if the in-place operator of this key, "aten::relu_", "aten::bernoulli_.float", has a functional form that can be
// converted in some overload.
bool has_functional_form(const std::string& key);

}  // namespace whence::lower
