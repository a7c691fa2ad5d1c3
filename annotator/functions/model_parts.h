// ModelParts: a model while its graph is rewritten. It starts as the structure of its file (onnx_summary.h); new parts
// are added as messages of their own, and weights stay in the file.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include <onnx/onnx_pb.h>

#include "annotator/onnx_file/carried_data.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::functions {

// True for an initializer that is in the model file and small enough to be copied into a function and read by shape
// inference.
bool is_small(const onnx_file::OnnxTensor& tensor);
inline constexpr std::size_t small_tensor = 1024;  // bytes

struct ModelParts {
  std::string path;  // the file that messages name
  std::shared_ptr<const MappedFile> file;
  // The current nodes, dense initializers, types of values and functions ...
  onnx_file::OnnxGraph graph;
  std::vector<onnx_file::OnnxFunction> functions;
  onnx::ModelProto frame;  // ... and everything else: the interface, imports, metadata
  std::shared_ptr<std::deque<std::string>> made = std::make_shared<std::deque<std::string>>();  // new messages

  Place place() const { return {.file = path, .stage = "read"}; }
  std::int64_t opset(const std::string& domain) const;  // -1 when it is not imported
  void import(const std::string& domain, std::int64_t version);

  // Store a new message and return it as a part of the structure.
  onnx_file::OnnxNode node(const onnx::NodeProto& made_node);
  onnx_file::OnnxTensor tensor(const onnx::TensorProto& made_tensor);
  onnx_file::OnnxValue value(const onnx::ValueInfoProto& made_value);
  onnx_file::OnnxFunction function(const onnx::FunctionProto& made_function);

 private:
  std::string_view keep(const google::protobuf::Message& message);
};

// Parts of the structure as messages. Throws Error(corrupt_file) for what onnx.proto does not describe.
onnx::NodeProto proto_of(const onnx_file::OnnxNode& node);
onnx::TensorProto proto_of(const onnx_file::OnnxTensor& tensor);
onnx::FunctionProto proto_of(const onnx_file::OnnxFunction& function);
onnx::ValueInfoProto value_proto(const onnx_file::OnnxValue& value);
onnx::TypeProto type_proto(std::string_view message);
// Without name, documentation and metadata, bodies excepted.
onnx::NodeProto bare_proto(const onnx_file::OnnxNode& node);

// Errors: those of read_onnx_summary, and corrupt_file.
ModelParts read_model_parts(const onnx_file::ModelSource& source);
ModelParts parts_of(onnx_file::OnnxSummary summary);  // takes a summary that was read from a file

// The structure of the model as it is now.
onnx_file::OnnxSummary summary_of(ModelParts parts);

// Data files come along (onnx_file/carried_data.h). Errors: over_limit; those of CarriedData and OutputFiles.
void write_model_parts(ModelParts parts, const onnx_file::ModelOutput& output);

}  // namespace whence::functions
