// ArchiveTexts: the fx nodes of an archive's graph in one line each, as torch.fx prints them once the archive is
// loaded:
// `%linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%x, %w), kwargs = {})`.
// Source: torch/fx/node.py (Node.format_node) of PyTorch 2.13.
//
// From the archive itself, not from the Program, which fills defaults and drops what computes nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "annotator/pt2/part.h"
#include "schema/flat_map.h"

namespace whence::pt2 {

class ArchiveTexts {
 public:
  explicit ArchiveTexts(const Part& graph) : graph_(graph) {}

  std::string of(const Part& node);  // `node`: one of the graph's

 private:
  using Names = std::vector<std::string_view>;

  void count_users();
  void count(Names& read);
  int users_of(std::string_view value) const;

  const Part& graph_;
  bool counted_ = false;                    // true once the graph's values are counted, when the first text is made
  FlatMap<std::string_view, int> readers_;  // nodes that read a value
};

}  // namespace whence::pt2
