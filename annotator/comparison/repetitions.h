// Repetitions: operators that repeat the elements of an axis, as grouped queries repeat keys and values. whence writes
// them as a choice of rows, other exporters as Expand or Tile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/comparison/operation_forms.h"
#include "annotator/derivation/contents.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/graph/graph.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

// Returns true for a node that only repeats elements: a Tile, and a choice of all rows of an axis, each of them equally
// often in a regular order.
bool repeats_elements(const graph::Graph& graph, const graph::GraphNode& node);

class Repetitions {
 public:
  // All must outlive this object.
  Repetitions(const OperationForms& operations, const derivation::FileTensors& tensors, derivation::Contents& contents)
      : operations_(operations), tensors_(tensors), contents_(contents) {}

  // Returns true if the node repeats elements in the order and number in which one of the operations chooses them.
  bool fits(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations) const;
  // Returns a remark for a node that repeats elements unlike the operations, which choose them; else "".
  std::string difference(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations) const;

 private:
  // What Tile or Expand repeats.
  struct Repeated {
    std::size_t axis = 0, rank = 0;
    std::int64_t count = 1;
    bool is_new = false;  // Unsqueeze has added the axis, so that Reshape joins it with a neighbour
  };
  std::optional<Repeated> repeated_by(const onnx_file::OnnxNode& node) const;
  // Returns the axis that Unsqueeze adds to a value of this rank, perhaps with a quantiser after it.
  std::optional<std::size_t> added_axis(std::string_view value, std::size_t rank) const;
  std::optional<std::vector<std::int64_t>> integers(const onnx_file::OnnxNode& node, std::size_t slot) const;

  const OperationForms& operations_;
  const derivation::FileTensors& tensors_;
  derivation::Contents& contents_;
};

}  // namespace whence::comparison
