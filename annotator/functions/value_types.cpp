#include "annotator/functions/value_types.h"

#include <set>

#include <onnx/shape_inference/implementation.h>

namespace whence::functions {
namespace {

onnx::TypeProto type_of(const StoredTensor& tensor) {
  onnx::TypeProto type;
  type.mutable_tensor_type()->set_elem_type(tensor.header.data_type());
  onnx::TensorShapeProto& shape = *type.mutable_tensor_type()->mutable_shape();
  for (const std::int64_t size : tensor.header.dims()) shape.add_dim()->set_dim_value(size);
  return type;
}

// Sizes and axes are looked at by inference; of weights it wants the type alone.
onnx::ModelProto without_weights(const ModelParts& parts) {
  onnx::ModelProto model = parts.model;
  onnx::GraphProto& graph = *model.mutable_graph();
  std::set<std::string> inputs;
  for (const onnx::ValueInfoProto& input : graph.input()) inputs.insert(input.name());
  for (const StoredTensor& tensor : parts.initializers) {
    if (tensor.small()) {
      *graph.add_initializer() = tensor.whole();
    } else if (!inputs.contains(tensor.header.name())) {
      onnx::ValueInfoProto& input = *graph.add_input();
      input.set_name(tensor.header.name());
      *input.mutable_type() = type_of(tensor);
    }
  }
  return model;
}

}  // namespace

std::map<std::string, onnx::TypeProto> value_types(const ModelParts& parts) {
  onnx::ModelProto model = without_weights(parts);
  try {
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), onnx::ShapeInferenceOptions{});
  } catch (const std::exception&) {
    model = without_weights(parts);  // a node that inference refuses: what the file states is known all the same
  }
  std::map<std::string, onnx::TypeProto> types;
  const onnx::GraphProto& graph = model.graph();
  for (const auto* values : {&graph.input(), &graph.value_info(), &graph.output()}) {
    for (const onnx::ValueInfoProto& value : *values) {
      if (value.has_type()) types[value.name()] = value.type();
    }
  }
  for (const StoredTensor& tensor : parts.initializers) types[tensor.header.name()] = type_of(tensor);
  return types;
}

}  // namespace whence::functions
