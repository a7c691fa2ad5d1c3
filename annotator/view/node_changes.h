// NodeChanges: how a node of one file differs from the same node of another, in its attributes and in the content of
// its weights. Called by diff.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/onnx_file/tensor_bytes.h"
#include "whence/diagnostics.h"

namespace whence::view {

// Returns the opset version that the model imports for a domain ("" is ai.onnx); 0 for none.
std::int64_t opset_version(const onnx_file::OnnxSummary& model, std::string_view domain);

class NodeChanges {
 public:
  // Both files must outlive this.
  NodeChanges(const onnx_file::OnnxSummary& a, const onnx_file::OnnxSummary& b);

  // Returns a text for each difference: "epsilon 1e-05 -> 0.1", "0.weight: 1 of 64 elements, by at most 1". An omitted
  // attribute has ONNX's default. Shared weights are compared once and reported for every node that reads them. Cost:
  // reads the bytes of both tensors.
  std::vector<std::string> between(const onnx_file::OnnxNode& a, const onnx_file::OnnxNode& b);

  // Holds a warning if external data could not be read.
  const Diagnostics& notes() const { return notes_; }

 private:
  struct File {
    explicit File(const onnx_file::OnnxSummary& model);

    const onnx_file::OnnxSummary& model;
    Place place;
    onnx_file::TensorBytes bytes;
    std::unordered_map<std::string_view, const onnx_file::OnnxTensor*> tensors;  // initializers, also of bodies
  };
  using Pair = std::pair<const onnx_file::OnnxTensor*, const onnx_file::OnnxTensor*>;

  void compare_attributes(const onnx_file::OnnxNode& a, const onnx_file::OnnxNode& b,
                          std::vector<std::string>& changes);
  std::optional<std::string> change_of(const onnx_file::OnnxAttribute& a, const onnx_file::OnnxAttribute& b);
  std::optional<std::string> change_of(const onnx_file::OnnxTensor& a, const onnx_file::OnnxTensor& b);
  std::string difference(const onnx_file::OnnxTensor& a, const onnx_file::OnnxTensor& b);  // empty: equal

  File a_, b_;
  std::map<Pair, std::string> compared_;
  Diagnostics notes_;
};

}  // namespace whence::view
