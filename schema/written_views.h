// Reshapes that are views or copies, by strides, which a Program does not hold. It matters where one is written
// through: there the readers, who see the memory, add memory_argument to it, an empty list.
#pragma once

#include <unordered_set>
#include <vector>

#include "schema/operator_facts.h"
#include "schema/program.h"

namespace whence {

class WrittenViews {
 public:
  // Takes note of `node`, which comes behind `nodes` and writes to the values `written` in place: of the reshapes that
  // these come from, those are marked whose results share their argument's memory. `shares_memory()` says that of the
  // node's own result, and is asked for reshapes only.
  void note(std::vector<Node>& nodes, const Node& node, const std::vector<ValueId>& written,
            const auto& shares_memory) {
    for (const ValueId value : written) mark(nodes, value);
    const bool reshapes = facts_of(node.target).memory == ResultMemory::by_strides && node.outputs.size() == 1;
    if (reshapes && shares_memory()) views_.insert(node.outputs.front());
  }

 private:
  void mark(std::vector<Node>& nodes, ValueId written) const;

  std::unordered_set<ValueId> views_;  // results of reshapes that share their argument's memory
};

}  // namespace whence
