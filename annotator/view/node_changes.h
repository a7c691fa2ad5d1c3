// NodeChanges: how a node of one file differs from the same node of another: its attributes, and the weights that it
// reads, by content. Called by diff.
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

// Returns the version of a domain's operators that the model imports, "" is ai.onnx; 0 for none.
std::int64_t opset_version(const onnx_file::OnnxSummary& model, std::string_view domain);

class NodeChanges {
 public:
  // Both files outlive this.
  NodeChanges(const onnx_file::OnnxSummary& a, const onnx_file::OnnxSummary& b);

  // One text for each difference: "epsilon 1e-05 -> 0.1", "0.weight: 1 of 64 elements, by at most 1". An attribute that
  // one of the nodes leaves out has ONNX's default. Weights that several nodes read are compared once, and differ for
  // each of them. Cost: reads the bytes of both tensors.
  std::vector<std::string> between(const onnx_file::OnnxNode& a, const onnx_file::OnnxNode& b);

  // A warning where weights lie beside a model and could not be read.
  const Diagnostics& notes() const { return notes_; }

 private:
  struct File {
    explicit File(const onnx_file::OnnxSummary& model);

    const onnx_file::OnnxSummary& model;
    Place place;
    onnx_file::TensorBytes bytes;
    std::unordered_map<std::string_view, const onnx_file::OnnxTensor*> tensors;  // initializers, of bodies too
  };
  using Pair = std::pair<const onnx_file::OnnxTensor*, const onnx_file::OnnxTensor*>;

  void compare_attributes(const onnx_file::OnnxNode& a, const onnx_file::OnnxNode& b,
                          std::vector<std::string>& changes);
  std::optional<std::string> change_of(const onnx_file::OnnxAttribute& a, const onnx_file::OnnxAttribute& b);
  std::optional<std::string> change_of(const onnx_file::OnnxTensor& a, const onnx_file::OnnxTensor& b);
  std::string difference(const onnx_file::OnnxTensor& a, const onnx_file::OnnxTensor& b);  // empty: none

  File a_, b_;
  std::map<Pair, std::string> compared_;
  Diagnostics notes_;
};

}  // namespace whence::view
