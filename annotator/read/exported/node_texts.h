// NodeTexts: the fx nodes of an archive's graph in one line each, as torch.fx prints them once the archive is loaded:
// `%linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%x, %w), kwargs = {})`.
// Source: torch/fx/node.py (Node.format_node) of PyTorch 2.13.
//
// From the archive itself, not from the Program, which fills defaults and drops what computes nothing.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "annotator/read/exported/part.h"

namespace whence {

class NodeTexts {
 public:
  // The graph's next node. One that `computes` nothing counts as no user: exporters remove it first.
  void add(const Part& node, bool computes);
  void add_outputs(const Part& outputs);  // of the graph

  std::string of(std::size_t node) const;  // by its position, once all are there

 private:
  struct Text {
    std::string name, call;            // "%linear", "call_function[...](...)"
    std::vector<std::string> outputs;  // names of results
    bool several = false;              // results are taken out by nodes of their own, which are the users
  };
  using Names = std::vector<std::string_view>;

  static Text text_of(const Part& node, Names& read);
  static std::string argument(const Part& argument, Names& read);

  void count(Names& read);

  std::vector<Text> texts_;
  std::unordered_map<std::string_view, int> users_;  // nodes that read a value
};

}  // namespace whence
