// ModelParts: an ONNX file as protobuf messages whose weights stay in the file, for rewriting its graph.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <onnx/onnx_pb.h>

#include "annotator/onnx_file/carried_data.h"
#include "schema/files/files.h"

namespace whence::functions {

inline constexpr std::size_t small_tensor = 1024;  // bytes

// An initializer: its header with name, dtype and shape, and its raw_data where it has any.
struct StoredTensor {
  onnx::TensorProto header;  // without raw_data
  std::optional<Bytes> raw;  // absent when the values lie in a typed field or in another file

  bool external() const { return header.data_location() == onnx::TensorProto::EXTERNAL; }
  // Within the file, and so few bytes that it may stand in a function and be looked at by shape inference.
  bool small() const;
  // With its bytes in place; for small ones.
  onnx::TensorProto whole() const;
};

struct ModelParts {
  std::string path;  // of the file that messages name
  std::shared_ptr<const MappedFile> file;
  onnx::ModelProto model;  // its outermost graph has no initializers: they are
  std::vector<StoredTensor> initializers;

  std::int64_t opset(const std::string& domain) const;  // -1 when it is not imported
  void import(const std::string& domain, std::int64_t version);
};

// Errors: those of read_onnx_summary, and corrupt_file.
ModelParts read_model_parts(const onnx_file::ModelSource& source);

// Data files come along (merge/carried_data.h). Errors: over_limit; those of CarriedData and OutputFiles.
void write_model_parts(ModelParts parts, const onnx_file::ModelOutput& output);

}  // namespace whence::functions
