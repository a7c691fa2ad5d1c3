// ArchiveTexts: each fx node of an archive's graph as one line, as torch.fx prints it after loading the archive:
// `%linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%x, %w), kwargs = {})`.
// Source: torch/fx/node.py (Node.format_node) of PyTorch 2.13.
//
// Reads the archive itself, because the Program has filled-in defaults and no checks.
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

  std::string of(const Part& node);  // `node`: a node of this graph

 private:
  using Names = std::vector<std::string_view>;

  void count_users();
  void count(Names& read);
  int users_of(std::string_view value) const;

  const Part& graph_;
  bool counted_ = false;                    // set when the first text is built
  FlatMap<std::string_view, int> readers_;  // number of nodes that read a value
};

}  // namespace whence::pt2
