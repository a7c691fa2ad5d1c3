// Finds the tensors that the results of a branch's side or of a loop's body are when it ends: tensors from before the
// block, views of such, or memory made inside it, perhaps the same for several results.
//
// Whoever goes on after the block knows its results by number and tensors from before by name, and nothing else of it.
#pragma once

#include <optional>
#include <vector>

#include "annotator/lower/memory.h"
#include "schema/program_walk.h"

namespace whence::lower {

// One of the tensors that a result may be.
struct Target {
  enum class Kind : std::uint8_t {
    own,      // memory that no other result reaches, or that others reach through this one
    outside,  // `tensor`, from before the block
    shared,   // the memory of the result with number `result`
    same      // that result itself
  };
  Kind kind = Kind::own;
  ValueId tensor = none_id;
  std::size_t result = 0;
  std::vector<Memory::View> steps = {};  // views made in the block, from that tensor to the result
  Memory::Guard guard = {};              // counts where those before do not hold; the last has none
};

// Two results, or a result and a tensor from before, that may share memory in a way that no condition tells.
struct UnclearEnd {
  std::size_t result = 0;
  std::optional<std::size_t> other;  // a result
  ValueId tensor = none_id;          // or a tensor
  Failure why;
};

struct BlockEnds {
  std::vector<std::vector<Target>> results;  // by result; none for one that is no tensor
  std::vector<UnclearEnd> unclear;
  std::vector<std::size_t> repeating;  // results with memory of their own in which several elements may be one
};

// Called at the end of the block, inside it, before its outputs are resolved; may add nodes that join conditions.
// `unclear`: said where memory is shared in a way that nothing tells.
BlockEnds block_ends(const Program& program, Memory& memory, const std::vector<Argument>& outputs,
                     const Failure& unclear);

// Calls `visit(id)` for each value that the steps read besides what they view.
void each_step_value(std::vector<Memory::View>& steps, const auto& visit) {
  for (Memory::View& step : steps) {
    for (NamedArgument& argument : step.node.arguments) {
      if (argument.name != step.argument) each_value(argument.value, visit);
    }
  }
}

// True if both are the same tensor by the same steps. Numbers that blocks deeper than `outside` made count as equal.
bool same_target(const Memory& memory, const Target& one, const Target& other, int outside);

}  // namespace whence::lower
