// Converts a Graph to protobuf messages: everything except the bytes of the outermost graph's initializers, which the
// writer splices in. Included only by write/, so that no other translation unit needs protobuf's headers.
#pragma once

#include <vector>

#include <onnx/onnx_pb.h>

#include "annotator/graph/graph.h"
#include "annotator/metadata/node_keys.h"
#include "annotator/text/unique_names.h"
#include "annotator/write/interface_metadata.h"
#include "annotator/write/user_functions.h"
#include "annotator/write/value_names.h"

namespace whence::write {

class GraphProtoMaker {
 public:
  // `metadata` must outlive the maker. `functions` may be null; calls of functions are written with only the attributes
  // that the function declares. `keys`: further node metadata besides the origin stamps, or nullptr.
  GraphProtoMaker(const graph::Graph& graph, const InterfaceMetadata& metadata, bool stamp_origins,
                  const UserFunctions* functions = nullptr, const metadata::NodeKeys* keys = nullptr)
      : graph_(graph),
        metadata_(metadata),
        names_(graph),
        stamp_origins_(stamp_origins),
        functions_(functions),
        keys_(keys) {}

  onnx::GraphProto nodes();  // the nodes, including their bodies
  // Returns the function with this origin on its nodes. Call it after nodes(), so that node names do not collide.
  onnx::FunctionProto function(const onnx::FunctionProto& function, const origin::NodeOrigin& origin);
  onnx::GraphProto interface(bool initializers_too);  // inputs, outputs, types that ONNX cannot infer, metadata
  onnx::TensorProto tensor_header(const graph::Initializer& initializer) const;  // without raw_data

 private:
  void add_origin(const origin::NodeOrigin& origin, onnx::NodeProto& node) const;
  void fill_nodes(const graph::Graph& graph, onnx::GraphProto& proto);
  void describe(graph::GraphValueId id, onnx::ValueInfoProto& info) const;
  void fill_initializers(onnx::GraphProto& proto, bool as_inputs) const;
  void fill_interface(const graph::Graph& graph, onnx::GraphProto& proto) const;
  void fill_lengths_of_sizes(const graph::Graph& body, onnx::GraphProto& proto) const;
  void fill_attribute(const graph::Attribute& attribute, onnx::AttributeProto& proto);
  onnx::GraphProto body(const graph::Graph& graph, const std::string& name);

  const graph::Graph& graph_;
  const InterfaceMetadata& metadata_;
  ValueNames names_;
  text::UniqueNames node_names_;
  bool stamp_origins_;
  const UserFunctions* functions_;
  const metadata::NodeKeys* keys_;
};

// Fills dims and data_type. Throws Error: unsupported_feature for a dtype that ONNX lacks; corrupt_file if bytes and
// shape disagree.
onnx::TensorProto tensor_header(const TensorData& data, const std::string& name);

// Returns the weights first, in the order of a state_dict: some readers use their position.
std::vector<const graph::Initializer*> weights_first(const std::vector<graph::Initializer>& initializers);

}  // namespace whence::write
