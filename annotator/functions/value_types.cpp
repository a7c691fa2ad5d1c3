#include "annotator/functions/value_types.h"

#include <onnx/shape_inference/implementation.h>

namespace whence {
namespace {

// Sizes and axes are looked at by inference; of weights it wants the type alone.
constexpr std::size_t small_tensor = 1024;

void add_type_of(const StoredTensor& tensor, onnx::GraphProto& graph) {
  if (!tensor.external() && tensor.raw.size <= small_tensor && tensor.header.ByteSizeLong() <= 2 * small_tensor) {
    *graph.add_initializer() = tensor.whole();
    return;
  }
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (input.name() == tensor.header.name()) return;
  }
  onnx::ValueInfoProto& input = *graph.add_input();
  input.set_name(tensor.header.name());
  onnx::TypeProto::Tensor& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(tensor.header.data_type());
  type.mutable_shape();
  for (const std::int64_t size : tensor.header.dims()) type.mutable_shape()->add_dim()->set_dim_value(size);
}

}  // namespace

std::map<std::string, onnx::TypeProto> value_types(const ModelParts& parts) {
  onnx::ModelProto model = parts.model;
  for (const StoredTensor& tensor : parts.initializers) add_type_of(tensor, *model.mutable_graph());
  try {
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), onnx::ShapeInferenceOptions{});
  } catch (const std::exception&) {
    // A node that inference refuses: what the file states is known all the same.
    model = parts.model;
    for (const StoredTensor& tensor : parts.initializers) add_type_of(tensor, *model.mutable_graph());
  }
  std::map<std::string, onnx::TypeProto> types;
  const onnx::GraphProto& graph = model.graph();
  for (const auto* values : {&graph.input(), &graph.value_info(), &graph.output()}) {
    for (const onnx::ValueInfoProto& value : *values) {
      if (value.has_type()) types[value.name()] = value.type();
    }
  }
  for (const StoredTensor& tensor : parts.initializers) {
    onnx::TypeProto::Tensor& type = *types[tensor.header.name()].mutable_tensor_type();
    type.set_elem_type(tensor.header.data_type());
    type.mutable_shape()->clear_dim();
    for (const std::int64_t size : tensor.header.dims()) type.mutable_shape()->add_dim()->set_dim_value(size);
  }
  return types;
}

}  // namespace whence
