#include "annotator/functions/value_types.h"

#include <set>

#include <onnx/shape_inference/implementation.h>

namespace whence::functions {

using onnx_file::OnnxTensor;

namespace {

onnx::TypeProto type_of(const OnnxTensor& tensor) {
  onnx::TypeProto type;
  type.mutable_tensor_type()->set_elem_type(tensor.data_type);
  onnx::TensorShapeProto& shape = *type.mutable_tensor_type()->mutable_shape();
  for (const std::int64_t size : tensor.dims) shape.add_dim()->set_dim_value(size);
  return type;
}

// Replaces the names of sizes by numbers where the file states them; inference finds the sizes that follow from them.
void set_sizes(onnx::GraphProto& graph, const Sizes& sizes) {
  for (auto* values : {graph.mutable_input(), graph.mutable_value_info(), graph.mutable_output()}) {
    for (onnx::ValueInfoProto& value : *values) {
      if (!value.type().has_tensor_type() || !value.type().tensor_type().has_shape()) continue;
      for (auto& dim : *value.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
        const auto size = sizes.find(dim.dim_param());
        if (!dim.has_dim_value() && size != sizes.end()) dim.set_dim_value(size->second);
      }
    }
  }
}

// Sizes and axes are looked at by inference; of weights it needs the type alone.
onnx::ModelProto without_weights(const ModelParts& parts, const Sizes& sizes) {
  onnx::ModelProto model = bare_model(parts);
  onnx::GraphProto& graph = *model.mutable_graph();
  set_sizes(graph, sizes);
  std::set<std::string_view> inputs;
  for (const onnx_file::OnnxValue& input : parts.graph.inputs) inputs.insert(input.name);
  for (const OnnxTensor& tensor : parts.graph.initializers) {
    if (is_small(tensor)) {
      *graph.add_initializer() = proto_of(tensor);
    } else if (!inputs.contains(tensor.name)) {
      onnx::ValueInfoProto& input = *graph.add_input();
      input.set_name(std::string(tensor.name));
      *input.mutable_type() = type_of(tensor);
    }
  }
  return model;
}

}  // namespace

std::map<std::string, onnx::TypeProto> value_types(const ModelParts& parts, const Sizes& sizes) {
  onnx::ModelProto model = without_weights(parts, sizes);
  try {
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), onnx::ShapeInferenceOptions{});
  } catch (const std::exception&) {
    model = without_weights(parts, sizes);  // a node that inference refuses: what the file states is known all the same
  }
  std::map<std::string, onnx::TypeProto> types;
  onnx::GraphProto& graph = *model.mutable_graph();
  for (auto* values : {graph.mutable_input(), graph.mutable_value_info(), graph.mutable_output()}) {
    for (onnx::ValueInfoProto& value : *values) {
      if (value.has_type()) types[value.name()].Swap(value.mutable_type());
    }
  }
  for (const OnnxTensor& tensor : parts.graph.initializers) types[std::string(tensor.name)] = type_of(tensor);
  return types;
}

}  // namespace whence::functions
