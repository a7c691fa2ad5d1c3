// WeightArithmetic: nodes that compute a weight from a parameter and a number, as 1 + weight before a norm. The forms
// of the program have the result alone, as a constant, so these nodes are compared with the program as it was recorded.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "annotator/derivation/contents.h"
#include "annotator/derivation/derive.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/graph/graph.h"
#include "schema/program.h"

namespace whence::comparison {

class WeightArithmetic {
 public:
  using OperationsOf = std::function<std::vector<std::int32_t>(const onnx_file::OnnxNode&)>;

  // All must outlive this object.
  WeightArithmetic(const Program& program, const derivation::FileTensors& tensors,
                   const std::vector<derivation::Derivation>& derivations, derivation::Contents& contents)
      : program_(program), tensors_(tensors), derivations_(derivations), contents_(contents) {}

  // Returns true for a sum or product of one parameter and one number that the program computes, too, for each
  // operation that reads it. `operations_of`: those of a node, empty if they are unknown or uncertain.
  bool is_recorded(const onnx_file::OnnxNode& node, const OperationsOf& operations_of);

 private:
  struct Operands {
    const derivation::ParameterStep* parameter = nullptr;
    std::optional<double> number;
  };
  Operands operands_of(const onnx_file::OnnxNode& node);
  // Returns true if a node of the recorded program computes the same.
  bool computes(const graph::Graph& graph, const graph::GraphNode& node, const Operands& operands) const;
  const graph::Graph* recorded();

  const Program& program_;
  const derivation::FileTensors& tensors_;
  const std::vector<derivation::Derivation>& derivations_;
  derivation::Contents& contents_;
  std::optional<std::optional<graph::Graph>> recorded_;  // made when a file has such a node
};

}  // namespace whence::comparison
