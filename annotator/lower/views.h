// Views: results that share memory with an argument. Finds which operators return views, and turns a write to a view
// into a new value of its base.
#pragma once

#include <functional>
#include <optional>

#include "annotator/lower/pass.h"

namespace whence::lower {

enum class ViewKind : std::uint8_t {
  none,     // the results have memory of their own
  same,     // the result is the argument
  view,     // the results are parts or other arrangements of the argument
  perhaps,  // a view or a copy, depending on the argument's strides: reshape, contiguous, flatten
};

struct ViewInfo {
  ViewKind kind = ViewKind::none;
  std::string argument;         // the argument whose memory is shared
  std::vector<ValueId> viewed;  // the viewed value: one for all results, or one per result

  ValueId viewed_by(std::size_t result) const { return viewed[viewed.size() == 1 ? 0 : result]; }
};

// Uses the operator's schema (alias annotations), and recorded dtypes for casts.
ViewInfo view_info(const Program& program, const Node& node);

// Callbacks that add nodes for a write through a view: `number` computes a size, or returns nullopt if it cannot; `add`
// adds an operation with a result of this type.
struct WriteSteps {
  std::function<std::optional<Argument>(const Size&)> number;
  std::function<ValueId(Node, const Type&)> add;
};

// Returns the operation that replaces result `output` of `view` with `written`, and so gives a new value of the base:
//   select(base, 0, 2)   ->   select_scatter(old_base, written, 0, 2)
// `view` has resolved arguments, its viewed argument replaced with `old_base`. The node has no outputs yet. Returns
// nullopt if no operator expresses the write.
std::optional<Node> write_through(const Program& program, const Node& view, std::size_t output,
                                  const std::string& argument, ValueId old_base, ValueId written,
                                  const WriteSteps& steps);

}  // namespace whence::lower
