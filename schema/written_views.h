// Reshapes that are views or copies, by strides, which a Program does not hold. It matters where something is written
// in place: there the readers, who see the memory, add memory_argument, an empty list to views and None to copies.
#pragma once

#include <optional>
#include <unordered_set>
#include <vector>

#include "schema/operator_facts.h"
#include "schema/program.h"

namespace whence {

class WrittenViews {
 public:
  // Takes note of `node`, which comes behind `nodes` and writes to the values `written` in place: of the reshapes
  // before it, those are marked from whose results these come, and those whose results are copies. `shares_memory()`
  // says whether the node's own result shares its argument's memory, nothing where that is not known, and is asked for
  // reshapes only.
  void note(std::vector<Node>& nodes, const Node& node, const std::vector<ValueId>& written,
            const auto& shares_memory) {
    for (const ValueId value : written) mark_views(nodes, value);
    if (!written.empty()) mark_copies(nodes);
    if (facts_of(node.target).memory != ResultMemory::by_strides || node.outputs.size() != 1) return;
    const std::optional<bool> shares = shares_memory();
    if (shares) (*shares ? views_ : copies_).insert(node.outputs.front());
  }

 private:
  void mark_views(std::vector<Node>& nodes, ValueId written) const;
  void mark_copies(std::vector<Node>& nodes);

  std::unordered_set<ValueId> views_;   // results of reshapes that share their argument's memory
  std::unordered_set<ValueId> copies_;  // that do not, and are not marked yet
};

}  // namespace whence
