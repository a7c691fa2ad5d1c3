// DraftedNodes: nodes in the place of fused operators (written_out.h), as a message that is read like a file. They show
// which operators compute what from which values; settings that no check reads are left out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"

namespace onnx {
class ModelProto;
}

namespace whence::comparison {

class DraftedNodes {
 public:
  // `is_taken` returns true for names of the file.
  explicit DraftedNodes(std::function<bool(std::string_view)> is_taken);
  ~DraftedNodes();

  std::size_t size() const;
  // Adds a node and returns its first output, under a new name if `output` is empty.
  std::string add(std::string_view op_type, const std::vector<std::string>& inputs, std::string output = "",
                  std::string_view name = "");
  // Adds an output to the last node; "" is one that nothing reads.
  void add_output(const std::string& output);
  std::string new_name();
  // Sets an attribute of the last node.
  void set(std::string_view name, std::int64_t number);
  void set(std::string_view name, float number);
  // Copies an attribute of the fused node to the last node.
  void copy_attribute(const onnx_file::OnnxNode& from, std::string_view name, std::string_view as);

  // Adds the rotation of pairs of elements: those half a head apart, or neighbours.
  std::string rotate(const std::string& value, const std::string& cosine, const std::string& sine,
                     bool turns_neighbours, const std::string& result = "");
  // Adds the negation of one element of each pair, and returns these with the other elements.
  std::string turn_pairs(const std::string& value, bool turns_neighbours);

  // Returns the model with the nodes, for summary_of_bytes().
  std::string bytes(std::int64_t ir_version);

 private:
  std::function<bool(std::string_view)> is_taken_;
  std::unique_ptr<onnx::ModelProto> model_;
  int names_ = 0;
};

}  // namespace whence::comparison
