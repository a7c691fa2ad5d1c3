// Determines what each result of a branch side or a loop body refers to at the end of the block: a tensor defined
// before the block, a view of one, or memory allocated inside the block, which several results may share.
//
// After the block, only these descriptions are available. They refer to results by number and to tensors defined before
// the block by id.
#pragma once

#include <optional>
#include <vector>

#include "annotator/lower/memory.h"
#include "schema/program_walk.h"

namespace whence::lower {

// One of the tensors that a result may be.
struct Target {
  enum class Kind : std::uint8_t {
    own,      // memory that no other result reaches, or that others reach through this result
    outside,  // `tensor`, defined before the block
    shared,   // the memory of result number `result`
    same      // the same tensor as result number `result`
  };
  Kind kind = Kind::own;
  ValueId tensor = none_id;
  std::size_t result = 0;
  std::vector<Memory::View> steps = {};  // views made in the block, from the target to the result
  Memory::Guard guard = {};              // applies if no earlier guard holds; the last target has none
};

// Two results, or a result and a tensor defined before the block, that may share memory, without a known condition for
// it.
struct UnclearEnd {
  std::size_t result = 0;
  std::optional<std::size_t> other;  // set if the partner is a result
  ValueId tensor = none_id;          // set if the partner is a tensor
  Failure why;
};

struct BlockEnds {
  std::vector<std::vector<Target>> results;  // indexed by result; empty for a result that is not a tensor
  std::vector<UnclearEnd> unclear;
  std::vector<std::size_t> repeating;  // results with their own memory in which elements may overlap
};

// Must be called inside the block, at its end, before its outputs are resolved. May add nodes that join conditions.
// `unclear` is the failure to report for each UnclearEnd.
BlockEnds block_ends(const Program& program, Memory& memory, const std::vector<Argument>& outputs,
                     const Failure& unclear);

// Calls `visit(id)` for each value that the steps read in addition to the viewed tensor.
void each_step_value(std::vector<Memory::View>& steps, const auto& visit) {
  for (Memory::View& step : steps) {
    for (NamedArgument& argument : step.node.arguments) {
      if (argument.name != step.argument) each_value(argument.value, visit);
    }
  }
}

// Returns true if both refer to the same tensor through the same steps. Two numbers computed in blocks deeper than
// `outside` count as equal.
bool same_target(const Memory& memory, const Target& one, const Target& other, int outside);

}  // namespace whence::lower
