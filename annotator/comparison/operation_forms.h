// OperationForms: the nodes by which whence writes each operation of a program, in several forms.
#pragma once

#include <cstdint>
#include <set>
#include <unordered_map>
#include <vector>

#include "annotator/derivation/program_forms.h"

namespace whence::comparison {

class OperationForms {
 public:
  explicit OperationForms(std::vector<derivation::ProgramForm> forms);

  // Returns the operations for which each form has an operator that computes numbers from the program's inputs,
  // ascending.
  std::vector<std::int32_t> computing() const;
  // Returns those of the operations that a form computes with a node of this class.
  std::vector<std::int32_t> covered(std::vector<std::int32_t> operations, std::uint16_t op_class) const;
  // Returns the operations that a form computes together with this one, by one node that is no product: the parts of a
  // norm or a rotation, which others write in ways of their own. With the operation itself.
  std::set<std::int32_t> fused_with(std::int32_t operation) const;
  // Returns the operations, and those that a form computes together with one of them, with one node of this class.
  std::vector<std::int32_t> with_joined(std::vector<std::int32_t> operations, std::uint16_t op_class) const;
  // Returns the largest number of nodes that a form has for an operation with operators of this class
  // (match/op_class.h).
  std::int64_t count(std::int32_t operation, std::uint16_t op_class) const;

  // Returns true if a form has an operator of this class for the operation.
  bool has(std::int32_t operation, std::uint16_t op_class) const { return count(operation, op_class) > 0; }
  // Returns true if a form converts a value to this dtype.
  bool converts_to(DType dtype) const;

  // A node of a form, and where it stands.
  struct FormNode {
    const graph::Graph* graph = nullptr;
    const graph::GraphNode* node = nullptr;
    int opset = 0;
    std::size_t form = 0;
    bool is_live = false;  // depends on an input of the program
  };
  // Calls visit(const FormNode&) with the nodes of the operations, in all forms.
  template <class Visit>
  void for_each_node(const std::vector<std::int32_t>& operations, Visit&& visit) const {
    for (const std::int32_t operation : operations) {
      const auto found = nodes_.find(operation);
      if (found == nodes_.end()) continue;
      for (const FormNode& form : found->second) visit(form);
    }
  }

 private:
  std::set<std::int32_t> of_same_nodes(const std::vector<std::int32_t>& operations, std::uint16_t op_class) const;
  void add(const graph::Graph& graph, int opset, std::size_t form, std::set<graph::GraphValueId> live);

  std::vector<derivation::ProgramForm> forms_;
  std::size_t graphs_ = 0;                                         // different ones
  std::unordered_map<std::int32_t, std::vector<FormNode>> nodes_;  // by operation
};

}  // namespace whence::comparison
