// Views: results that share memory with an argument. Which operators make them, and how a write to a view becomes a new
// value of what it is a view of.
#pragma once

#include <functional>
#include <optional>

#include "annotator/lower/pass.h"

namespace whence::lower {

enum class ViewKind : std::uint8_t {
  none,     // the results have memory of their own
  same,     // the result is the argument
  view,     // the results are parts or other arrangements of the argument
  perhaps,  // a view or a copy, by its argument's place: reshape, contiguous, flatten
};

struct ViewInfo {
  ViewKind kind = ViewKind::none;
  std::string argument;         // the one whose memory is shared
  std::vector<ValueId> viewed;  // which value that is: one for all results, or one for each

  ValueId viewed_by(std::size_t result) const { return viewed[viewed.size() == 1 ? 0 : result]; }
};

// From the operator's schema (alias annotations), and from recorded dtypes where a cast decides.
ViewInfo view_info(const Program& program, const Node& node);

// Adds to the program what a write through a view takes: a size as a number, nullopt where it cannot; an operation,
// whose result has this type.
struct WriteSteps {
  std::function<std::optional<Argument>(const Size&)> number;
  std::function<ValueId(Node, const Type&)> add;
};

// The operation that puts `written` in the place of result `output` of `view`, giving a new value of what was viewed:
//   select(base, 0, 2)   ->   select_scatter(old_base, written, 0, 2)
// `view` has its arguments resolved, its viewed argument replaced by `old_base`. The node has no outputs yet. nullopt
// when no operator expresses it.
std::optional<Node> write_through(const Program& program, const Node& view, std::size_t output,
                                  const std::string& argument, ValueId old_base, ValueId written,
                                  const WriteSteps& steps);

}  // namespace whence::lower
