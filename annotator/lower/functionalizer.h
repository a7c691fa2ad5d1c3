// The pass of functionalize(), node by node: writes in functionalize.cpp, control flow in written_branches.cpp and
// written_loops.cpp.
#pragma once

#include <array>
#include <vector>

#include "annotator/lower/block_ends.h"
#include "annotator/lower/memory.h"
#include "annotator/lower/pass.h"
#include "annotator/lower/write_reports.h"

namespace whence::lower {

class Functionalizer {
 public:
  explicit Functionalizer(Lowering& lowering)
      : program_(lowering.program), reports_(lowering), memory_(lowering.program, reports_) {}

  void run();

 private:
  void run(Block& block);
  void step(Node node);
  std::vector<Node> as_slices(const Node& narrow);
  std::vector<Node> as_expands(Node broadcast);
  std::optional<Memory::Guard> view_guard(const Node& node, ValueId base, const std::vector<Constraint>& condition);
  ValueId read_whole_memory(Node& node, ValueId base);
  std::vector<ValueId> sharing_elements(const Node& node) const;

  // ---- writing
  void write(Node& node);
  bool writes_to_itself(const Node& node, ValueId self) const;
  void write_list(Node& node);
  void warn_of_write(const Node& node, ValueId self);
  void warn_of_overlap(const Node& node, ValueId self);
  void set_source(const Node& node, ValueId self, ValueId result);
  bool may_change_shape(const Node& node, ValueId self);

  // ---- control flow
  void branch(Node node);
  void join(Node& branch, const std::array<BlockEnds, 2>& ends, const Failure& unclear);
  void loop(Node node);

  Program& program_;
  WriteReports reports_;
  Memory memory_;
};

}  // namespace whence::lower
