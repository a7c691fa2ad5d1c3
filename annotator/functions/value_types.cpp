#include "annotator/functions/value_types.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include <onnx/shape_inference/implementation.h>

#include "annotator/functions/shape_arithmetic.h"
#include "annotator/functions/written_size.h"
#include "annotator/operators/onnx_operators.h"
#include "annotator/origin/confidence.h"
#include "schema/freed_memory.h"

namespace whence::functions {

using onnx_file::OnnxTensor;
using Dimension = onnx::TensorShapeProto::Dimension;

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
        if (dim.dim_param().empty() && values != graph.mutable_input()) continue;
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

// Inference stops at operators that onnx does not know. ONNX Runtime's whose result is like the first input are passed
// on as an Identity, and its SimplifiedLayerNormalization, which has ONNX's domain.
void spell_out_known_results(onnx::ModelProto& model) {
  std::map<std::string, int> opsets;
  for (const auto& opset : model.opset_import()) opsets[opset.domain()] = static_cast<int>(opset.version());
  for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
    if (operators::onnx_operator(node.op_type()).result_type != operators::ResultType::like_first) continue;
    if (!node.domain().empty() && !origin::is_of_runtime(node.domain())) continue;
    const auto opset = opsets.find(node.domain());
    if (opset != opsets.end() && onnx::OpSchemaRegistry::Schema(node.op_type(), opset->second, node.domain())) continue;
    if (node.input_size() == 0 || node.output_size() == 0) continue;
    const std::string input = node.input(0), output = node.output(0);
    node.Clear();
    node.set_op_type("Identity");
    node.add_input(input);
    node.add_output(output);
  }
}

// onnx's inference follows every call, however often functions call each other.
bool is_inferable(const ModelParts& parts) {
  if (parts.functions.empty()) return true;
  const auto nodes = written_size(parts, [](const onnx_file::OnnxFunction&) { return true; });
  return nodes && *nodes <= 100'000 + 10 * stored_nodes(parts);
}

// onnx's propagation makes an object for each element of a vector whose length is stated.
bool holds_long_vector(const onnx::GraphProto& graph) {
  constexpr std::int64_t most_elements = 1 << 20;
  return std::ranges::any_of(graph.input(), [](const onnx::ValueInfoProto& input) {
    const onnx::TensorShapeProto& shape = input.type().tensor_type().shape();
    return shape.dim_size() == 1 && shape.dim(0).dim_value() > most_elements;
  });
}

// True if the size of a result is not known.
bool lacks_types(const onnx::GraphProto& graph) {
  std::size_t known = 0, results = 0;
  for (const auto* values : {&graph.value_info(), &graph.output()}) {
    for (const onnx::ValueInfoProto& value : *values) {
      const onnx::TypeProto::Tensor& tensor = value.type().tensor_type();
      known += tensor.has_shape() && std::ranges::all_of(tensor.shape().dim(), &Dimension::has_dim_value) ? 1 : 0;
    }
  }
  for (const onnx::NodeProto& node : graph.node()) {
    results +=
        static_cast<std::size_t>(std::ranges::count_if(node.output(), [](const auto& name) { return !name.empty(); }));
  }
  return known < results;
}

onnx::ModelProto inferred(const ModelParts& parts, const Sizes& sizes) {
  onnx::ModelProto model = without_weights(parts, sizes);
  if (!is_inferable(parts)) return model;
  spell_out_known_results(model);
  parts.file->release_all();  // inference looks at the model alone
  try {
    // Sizes are followed through Shape, Gather and Concat, so that those that are dynamic keep their names.
    const onnx::ShapeInferenceOptions follow_sizes(/*check_type_val=*/false, /*strict_mode_val=*/0,
                                                   /*data_prop_val=*/!holds_long_vector(model.graph()));
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), follow_sizes);
  } catch (const std::exception&) {
    model = without_weights(parts, sizes);  // a node that inference refuses: what the file states is known all the same
  }
  if (!sizes.empty() || lacks_types(model.graph())) follow_sizes(model);
  return model;
}

}  // namespace

namespace {

// Calls `add(value)` for each value of the bodies in the graph of which a type is known.
void each_inner_type(const onnx::GraphProto& graph, const auto& add) {
  for (const onnx::NodeProto& node : graph.node()) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      std::vector<const onnx::GraphProto*> bodies;
      if (attribute.has_g()) bodies.push_back(&attribute.g());
      for (const onnx::GraphProto& body : attribute.graphs()) bodies.push_back(&body);
      for (const onnx::GraphProto* body : bodies) {
        for (const auto* values : {&body->input(), &body->value_info(), &body->output()}) {
          for (const onnx::ValueInfoProto& value : *values) {
            if (value.has_type()) add(value);
          }
        }
        each_inner_type(*body, add);
      }
    }
  }
}

}  // namespace

ValueTypes value_types(const ModelParts& parts, const Sizes& sizes) {
  ValueTypes types;
  std::unordered_map<std::string, std::shared_ptr<const onnx::TypeProto>> distinct;  // by their bytes
  const auto add = [&](const std::string& name, const onnx::TypeProto& type) {
    auto& known = distinct[type.SerializeAsString()];
    if (known == nullptr) known = std::make_shared<const onnx::TypeProto>(type);
    types.insert_or_assign(name, known);
  };
  {
    const onnx::ModelProto model = inferred(parts, sizes);
    for (const auto* values : {&model.graph().input(), &model.graph().value_info(), &model.graph().output()}) {
      for (const onnx::ValueInfoProto& value : *values) {
        if (value.has_type()) add(value.name(), value.type());
      }
    }
    each_inner_type(model.graph(), [&](const onnx::ValueInfoProto& value) {
      if (!types.contains(value.name())) add(value.name(), value.type());
    });
  }
  give_back_freed_memory();
  for (const OnnxTensor& tensor : parts.graph.initializers) add(std::string(tensor.name), type_of(tensor));
  return types;
}

}  // namespace whence::functions
