// ModelParts: a model while its graph is rewritten. It starts as the structure of its file (onnx_summary.h); new parts
// are added as protobuf messages, and weights stay in the file.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include <onnx/onnx_pb.h>

#include "annotator/onnx_file/carried_data.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::functions {

// Returns true for an initializer that is in the model file, and small enough to be copied into a function and read by
// shape inference.
bool is_small(const onnx_file::OnnxTensor& tensor);
inline constexpr std::size_t max_small_tensor_bytes = 1024;

struct ModelParts {
  std::string path;  // the file's path in diagnostics
  std::shared_ptr<const MappedFile> file;
  onnx_file::OnnxGraph graph;  // current nodes, dense initializers and types of values
  std::vector<onnx_file::OnnxFunction> functions;
  onnx::ModelProto frame;  // everything except graph and functions: the interface, imports, metadata
  // Owns the messages of new parts.
  std::shared_ptr<std::deque<std::string>> new_messages = std::make_shared<std::deque<std::string>>();

  Place place() const { return {.file = path, .stage = "read"}; }
  std::int64_t opset(const std::string& domain) const;  // -1 if it is not imported
  void import(const std::string& domain, std::int64_t version);

  // Store a new message, and return it as a part of the structure.
  onnx_file::OnnxNode node(const onnx::NodeProto& message);
  onnx_file::OnnxTensor tensor(const onnx::TensorProto& message);
  onnx_file::OnnxValue value(const onnx::ValueInfoProto& message);
  onnx_file::OnnxFunction function(const onnx::FunctionProto& message);

 private:
  std::string_view store(const google::protobuf::Message& message);
};

// Return parts of the structure as messages. Throw Error(corrupt_file) for bytes that do not follow onnx.proto.
onnx::NodeProto proto_of(const onnx_file::OnnxNode& node);
onnx::TensorProto proto_of(const onnx_file::OnnxTensor& tensor);
onnx::FunctionProto proto_of(const onnx_file::OnnxFunction& function);
onnx::ValueInfoProto value_proto(const onnx_file::OnnxValue& value);
onnx::TypeProto type_proto(std::string_view message);
// Returns a node without its name, documentation and metadata; nodes in its bodies keep theirs.
onnx::NodeProto bare_proto(const onnx_file::OnnxNode& node);

// Errors: those of read_onnx_summary, and corrupt_file.
ModelParts read_model_parts(const onnx_file::ModelSource& source);
ModelParts parts_of(onnx_file::OnnxSummary summary);  // `summary` was read from a file

// Returns the structure of the model in its current state.
onnx_file::OnnxSummary summary_of(ModelParts parts);

// Writes the model and its data files (onnx_file/carried_data.h). Errors: over_limit; those of CarriedData,
// OutputFiles.
void write_model_parts(ModelParts parts, const onnx_file::ModelOutput& output);

}  // namespace whence::functions
