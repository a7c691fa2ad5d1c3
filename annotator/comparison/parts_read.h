// Compares which parts of a value a node reads with those in the program: halves of a rotation, query, key and value of
// one product, the first of several tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/comparison/operation_forms.h"
#include "annotator/comparison/packed_products.h"
#include "annotator/derivation/contents.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

class PartsRead {
 public:
  // All must outlive this object. The parts of a packed product are products of the program.
  PartsRead(const OperationForms& forms, const derivation::FileTensors& tensors, const PackedProducts& packed,
            derivation::Contents& contents)
      : forms_(forms), tensors_(tensors), packed_(packed), contents_(contents) {}

  // Compares the parts that constants choose between each operand and the node that computes it. Returns what differs;
  // "" if nothing, or if the parts are unknown.
  std::string difference(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations) const;

 private:
  // Consecutive elements of an axis, whichever it is: exporters move axes.
  struct Part {
    std::optional<std::int64_t> start = {}, end = {};  // negative ones count from the end; nullopt: computed
    std::int64_t step = 1;
    std::optional<std::int64_t> size = {};  // of the axis
    bool is_counted = false;                // in equal parts of unknown size
  };
  using Parts = std::vector<Part>;
  // Returns true for a value that depends on no input of the file. Such are compared with such of the program.
  bool is_fixed(std::string_view value, int depth) const;
  // Returns the parts on the way to an operand, the last first; nullopt if one of them is unknown.
  std::optional<Parts> parts_of(std::string_view value) const;
  static std::optional<Parts> parts_of(const graph::Graph& graph, graph::GraphValueId value);
  std::optional<Part> part_of(const onnx_file::OnnxNode& selection, std::string_view value) const;
  static std::optional<Part> part_of(const graph::Graph& graph, const graph::GraphNode& selection,
                                     graph::GraphValueId value);
  static std::optional<Part> sliced(const std::vector<std::optional<std::vector<std::int64_t>>>& numbers);
  static Part split(const std::vector<std::int64_t>& sizes, std::size_t place);
  static bool are_equal(const Part& a, const Part& b);
  static std::string text_of(const Parts& parts);
  std::optional<std::vector<std::int64_t>> integers(const onnx_file::OnnxNode& node, std::size_t slot) const;

  const OperationForms& forms_;
  const derivation::FileTensors& tensors_;
  const PackedProducts& packed_;
  derivation::Contents& contents_;
};

}  // namespace whence::comparison
