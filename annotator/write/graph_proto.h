// Graph to protobuf messages: everything except the bytes of the outermost graph's initializers, which the writer
// splices in. Included only by write/, so that no other translation unit needs protobuf's headers.
#pragma once

#include <onnx/onnx_pb.h>

#include "annotator/graph/graph.h"
#include "annotator/write/unique_names.h"
#include "annotator/write/user_functions.h"
#include "annotator/write/value_names.h"

namespace whence {

class GraphProtoMaker {
 public:
  // `functions` may be null. Of what they are called with, only attributes that they have are written.
  GraphProtoMaker(const Graph& graph, bool stamp_origins, const UserFunctions* functions = nullptr)
      : graph_(graph), names_(graph), stamp_origins_(stamp_origins), functions_(functions) {}

  onnx::GraphProto nodes();      // the nodes, with their bodies in full
  onnx::GraphProto interface(bool initializers_too);  // inputs, outputs, types of values that ONNX cannot infer
  onnx::TensorProto tensor_header(const Initializer& initializer) const;  // without raw_data

 private:
  void fill_nodes(const Graph& graph, onnx::GraphProto& proto);
  void fill_interface(const Graph& graph, onnx::GraphProto& proto) const;
  void fill_attribute(const Attribute& attribute, onnx::AttributeProto& proto);
  onnx::GraphProto body(const Graph& graph, const std::string& name);

  const Graph& graph_;
  ValueNames names_;
  UniqueNames node_names_;
  bool stamp_origins_;
  const UserFunctions* functions_;
};

// dims, data_type. Throws Error: unsupported_feature for a dtype that ONNX lacks; internal when bytes and shape differ.
onnx::TensorProto tensor_header(const TensorData& data, const std::string& name);

}  // namespace whence
