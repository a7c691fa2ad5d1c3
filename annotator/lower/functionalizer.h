// The pass of functionalize(), node by node: writes in functionalize.cpp, control flow in written_control_flow.cpp.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "annotator/lower/memory.h"
#include "annotator/lower/outer_writes.h"
#include "annotator/lower/pass.h"
#include "annotator/lower/write_reports.h"

namespace whence::lower {

class Functionalizer {
 public:
  explicit Functionalizer(Lowering& lowering)
      : program_(lowering.program), reports_(lowering), memory_(lowering.program, reports_) {}

  void run();

 private:
  void run(Block& block, int depth);
  void step(Node node);
  std::vector<Node> as_slices(const Node& narrow);

  // ---- writing
  void write(Node& node);
  bool writes_to_itself(const Node& node, ValueId self) const;
  void write_list(Node& node);
  void warn_of_write(const Node& node, ValueId self);
  void warn_of_overlap(const Node& node, ValueId self);
  void stand_for(const Node& node, ValueId self, ValueId result);
  void stay_inside(const Node& node, ValueId self);

  // ---- control flow
  using Losses = std::unordered_map<ValueId, Diagnostic>;
  using Aliases = std::vector<std::pair<ValueId, ValueId>>;
  OuterWrites outer_writes_of(const Node& node) const;
  void branch(Node node);
  void loop(Node node);
  std::vector<ValueId> carry(Block& body, std::size_t variables, const std::vector<ValueId>& written);
  void doubt_variables(const Node& loop, const OuterWrites& writes, const Diagnostic& unclear);
  Aliases kept_variables(Node& loop, const OuterWrites& writes);
  void add_result(Node& node, std::size_t position, ValueId memory);

  Program& program_;
  WriteReports reports_;
  Memory memory_;
  std::unordered_map<ValueId, int> depth_of_;  // the depth of values defined in nested blocks
  int depth_ = 0;
};

}  // namespace whence::lower
