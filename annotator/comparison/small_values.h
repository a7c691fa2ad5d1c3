// Evaluates the values of a file or a program that follow from a few small inputs: masks, positions, sizes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "annotator/derivation/contents.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/graph/graph.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/simplify/evaluate/evaluate.h"
#include "schema/tensor_data.h"

namespace whence::comparison {

// Returns the result of a node with one output that computes, moves or chooses elements; nullopt if it is large or
// unknown.
std::optional<TensorData> evaluate_small(const graph::GraphNode& node, const simplify::Constants& inputs);
// Returns a node of a file with the attributes that evaluation reads, without inputs.
graph::GraphNode graph_node_of(const onnx_file::OnnxNode& node, derivation::Contents& contents);
// Returns the integers that a Constant states outside of a tensor.
std::optional<TensorData> stated_integers(const graph::GraphNode& node);

// Values of a file by name. Both classes return null for values that follow from anything else, are large, or are
// computed by operators that they cannot evaluate.
class FileValues {
 public:
  // The tensors and contents must outlive this object.
  FileValues(const derivation::FileTensors& tensors, derivation::Contents& contents,
             std::map<std::string_view, TensorData> inputs);

  const TensorData* of(std::string_view value) { return of(value, 0); }

 private:
  const TensorData* of(std::string_view value, int depth);
  std::optional<TensorData> compute(std::string_view value, int depth);

  const derivation::FileTensors& tensors_;
  derivation::Contents& contents_;
  std::map<std::string_view, std::optional<TensorData>> known_;
};

class ProgramValues {
 public:
  // The graph must outlive this object.
  ProgramValues(const graph::Graph& graph, std::map<graph::GraphValueId, TensorData> inputs);

  const TensorData* of(graph::GraphValueId value) { return of(value, 0); }

 private:
  const TensorData* of(graph::GraphValueId value, int depth);
  std::optional<TensorData> compute(graph::GraphValueId value, int depth);

  const graph::Graph& graph_;
  std::map<graph::GraphValueId, std::optional<TensorData>> known_;
};

}  // namespace whence::comparison
