// OperationForms: the nodes by which whence writes each operation of a program. A node of another file that stands for
// the same operations must state the same settings.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/program_forms.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::derivation {

class OperationForms {
 public:
  explicit OperationForms(std::vector<ProgramForm> forms);

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
  // Returns the smallest and largest number of an operation that only cuts off numbers: Relu, Clip, Max or Min with a
  // number; nullopt for others.
  std::optional<std::pair<double, double>> bounds(std::int32_t operation) const;

  // Returns whether a form reads one value twice, perhaps moved, by a node of this class with two inputs; nullopt if
  // there is no such node.
  std::optional<bool> reads_twice(const std::vector<std::int32_t>& operations, std::uint16_t op_class) const;
  // Returns the numbers by which forms multiply or divide in these operations, their reciprocals and products of two.
  std::set<double> factors(const std::vector<std::int32_t>& operations) const;
  // Returns the step of the Slice whose result an operation negates; nullopt if there is none.
  std::optional<std::int64_t> step_before_negation(const std::vector<std::int32_t>& operations) const;

  // Compares the attributes of a node with those of its operations' nodes that have the same operator. `opset`: the
  // file's. Returns what differs: "axis is 1, not -1 as in the program"; "" if nothing differs or there is no such
  // node.
  std::string difference(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations, int opset) const;
  // Compares which operands are constants, for operators whose operands cannot be exchanged. Returns what differs.
  std::string exchanged(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations,
                        const FileTensors& tensors) const;

 private:
  template <class Visit>
  void for_each_node(const std::vector<std::int32_t>& operations, Visit&& visit) const;
  std::set<std::int32_t> of_same_nodes(const std::vector<std::int32_t>& operations, std::uint16_t op_class) const;
  struct FormNode {
    const graph::Graph* graph = nullptr;
    const graph::GraphNode* node = nullptr;
    int opset = 0;
    std::size_t form = 0;
    bool is_live = false;  // depends on an input of the program
  };
  void add(const graph::Graph& graph, int opset, std::size_t form, std::set<graph::GraphValueId> live);

  std::vector<ProgramForm> forms_;
  std::size_t graphs_ = 0;                                         // different ones
  std::unordered_map<std::int32_t, std::vector<FormNode>> nodes_;  // by operation
};

}  // namespace whence::derivation
