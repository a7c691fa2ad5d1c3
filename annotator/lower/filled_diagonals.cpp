// fill_diagonal_(x, 5)              ->   diagonal(x).fill_(5)
// fill_diagonal_(x, 5, wrap=True)   ->   view(x, [-1])[::columns + 1].fill_(5)
// fill_diagonal_ is the only in-place operator without a functional form that views can express. With more than two
// axes, all of one length, it fills the main diagonal through all axes.
#include <algorithm>

#include "annotator/lower/compose.h"
#include "annotator/lower/pipeline.h"
#include "schema/result.h"

namespace whence::lower {

namespace {

// Returns the shorter of two axes; a dynamic size if either is dynamic.
Dim diagonal_of(const Dim& a, const Dim& b) {
  if (a == b) return a;
  if (a.is_static() && b.is_static()) return {std::min(a.size, b.size), false, none_id};
  return {std::min(a.size, b.size), true, none_id};
}

Argument diagonal(Compose& c, const Argument& self) {
  std::vector<Dim> dims = c.dims(self);
  Argument part = self;
  for (std::int64_t second = 1; dims.size() > 1; second = -1) {
    const Dim length = diagonal_of(dims.front(), second == 1 ? dims[1] : dims.back());
    dims.erase(dims.begin());
    dims.erase(second == 1 ? dims.begin() : dims.end() - 1);
    dims.push_back(length);
    part = c.add("aten::diagonal",
                 {{"self", part}, {"offset", {std::int64_t{0}}}, {"dim1", {std::int64_t{0}}}, {"dim2", {second}}},
                 c.dtype(self), dims);
  }
  return part;
}

// Returns every (columns + 1)-th element, through all rows.
Argument wrapped_diagonal(Compose& c, const Argument& self) {
  const Dim columns = c.dims(self)[1];
  if (!columns.is_static()) c.refuse("the diagonal wraps at a dynamic size", "leave the last axis fixed");
  const Dim open{-1, true, none_id};
  const Argument flat =
      c.add("aten::view", {{"self", self}, {"size", {ArgumentList{{std::int64_t{-1}}}}}}, c.dtype(self), {open});
  return c.add("aten::slice.Tensor", {{"self", flat}, {"dim", {std::int64_t{0}}}, {"step", {columns.size + 1}}},
               c.dtype(self), {open});
}

}  // namespace

void expand_filled_diagonals(Lowering& lowering) {
  const auto fills = [](const Node& node) { return node.target == "aten::fill_diagonal_"; };
  if (!program::any_node(lowering.program.body, fills)) return;
  program::Replacements replaced;
  program::expand_nodes(lowering.program, replaced, [&](const Node& node, std::vector<Node>& to) {
    if (!fills(node)) return false;
    Compose c(lowering.program, node);
    try {
      const Argument &self = c.argument("self"), &wrap = c.argument("wrap");
      const bool wraps = !wrap.is_none() && known_flag(lowering.program, wrap).value_or(false);
      const Argument part = wraps && c.dims(self).size() == 2 ? wrapped_diagonal(c, self) : diagonal(c, self);
      c.add("aten::fill_.Scalar", {{"self", part}, {"value", c.argument("fill_value")}}, c.dtype(self), c.dims(part));
      for (Node& step : c.take()) to.push_back(std::move(step));
      for (const ValueId output : node.outputs) replaced.emplace(output, self);
      return true;
    } catch (const Error& error) {
      add_failures(lowering.failures, node, error);
      return false;
    }
  });
}

}  // namespace whence::lower
