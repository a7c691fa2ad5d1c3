// FxNames: the names of a program's nodes and values in torch.export's graph, and the one-line text of a node. For a
// program from another source, the names and texts that torch.export would produce:
//   %linear_2 : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%x, %w), kwargs = {})
// Source: torch/fx/graph.py (_Namespace.create_name) and torch/fx/node.py (Node.format_node) of PyTorch 2.13.
#pragma once

#include <string>
#include <vector>

#include "annotator/metadata/fx_line.h"
#include "schema/op_schema.h"
#include "schema/program.h"

namespace whence::metadata {

class FxNames {
 public:
  // `program` must outlive this object.
  explicit FxNames(const Program& program);

  std::string name(std::int32_t op) const;              // "linear_2"
  const std::string& value_name(ValueId value) const {  // "p_encoder_weight"
    return from_fx_ ? program_.values[value].name : values_[value];
  }
  std::string target(std::int32_t op) const;  // "aten.linear.default", "<built-in function mul>"
  std::string format(std::int32_t op) const;

 private:
  void assign_names();
  static std::string recorded_name(const Node& node);
  std::int32_t users_of(const Node& node) const;
  void count_users() const;
  std::string format_argument(const Argument& argument) const;
  FxLine line_of(const Node& node) const;

  const Program& program_;
  const bool from_fx_;  // the program was an fx graph, so its nodes and values have names
  std::vector<const Node*> operations_;
  // Names by operation and by value; empty if from_fx_.
  std::vector<std::string> nodes_;
  IndexedVector<ValueId, std::string> values_;
  // The number of nodes that read each value; counted on first use.
  mutable IndexedVector<ValueId, std::int32_t> users_;
};

}  // namespace whence::metadata
