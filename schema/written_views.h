// Reshapes that are views or copies, by strides, which a Program does not hold. It matters where something is written
// in place: there the readers, who see the memory, add memory_argument, an empty list to views and None to copies. It
// stays away where they cannot say, or where it depends on sizes.
#pragma once

#include <optional>
#include <unordered_map>

#include "schema/operator_facts.h"
#include "schema/program.h"

namespace whence {

// True for reshapes, and for to(memory_format=...), which gives its argument back where that has the format.
bool shares_by_strides(const Node& node);

class WrittenViews {
 public:
  // Takes note of `node` if it is one of these: `shares_memory()` says whether its result shares its argument's memory,
  // nothing where that is not known.
  void note(const Node& node, const auto& shares_memory) {
    if (!shares_by_strides(node) || node.outputs.size() != 1) return;
    if (const std::optional<bool> shares = shares_memory()) shares_[node.outputs.front()] = *shares;
  }

  // Marks the reshapes of a program that writes in place.
  void mark(Program& program) const;

 private:
  std::unordered_map<ValueId, bool> shares_;  // by the result of a reshape
};

}  // namespace whence
