#include "annotator/functions/value_types.h"

#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>

#include <onnx/shape_inference/implementation.h>

#include "annotator/functions/inlined_size.h"
#include "annotator/functions/shape_arithmetic.h"
#include "annotator/onnx_file/walk.h"
#include "annotator/operators/onnx_operators.h"
#include "annotator/origin/confidence.h"
#include "schema/freed_memory.h"

namespace whence::functions {

using onnx_file::OnnxNode;
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

// Replaces the names of sizes in a stated type with numbers; inference finds the sizes that follow from them.
void set_sizes(onnx::ValueInfoProto& value, const Sizes& sizes, bool is_input) {
  if (!value.type().has_tensor_type() || !value.type().tensor_type().has_shape()) return;
  for (auto& dim : *value.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
    if (dim.dim_param().empty() && !is_input) continue;
    const auto size = sizes.find(dim.dim_param());
    if (!dim.has_dim_value() && size != sizes.end()) dim.set_dim_value(size->second);
  }
}

// Inference stops at operators that onnx does not define. Replaces those of ONNX Runtime with a result like the first
// input by Identity, also its SimplifiedLayerNormalization, which is in ONNX's domain.
void replace_undefined_operators(onnx::ModelProto& model) {
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

// Returns false if the file's functions expand to too many nodes: onnx's inference follows every call.
bool can_infer(const ModelParts& parts) {
  if (parts.functions.empty()) return true;
  const auto nodes = inlined_size(parts, [](const onnx_file::OnnxFunction&) { return true; });
  return nodes && *nodes <= 100'000 + 10 * stored_nodes(parts);
}

// Returns true if an input is a long vector: onnx's data propagation makes an object for each of its elements.
bool holds_long_vector(const onnx::GraphProto& graph) {
  constexpr std::int64_t max_elements = 1 << 20;
  return std::ranges::any_of(graph.input(), [](const onnx::ValueInfoProto& input) {
    const onnx::TensorShapeProto& shape = input.type().tensor_type().shape();
    return shape.dim_size() == 1 && shape.dim(0).dim_value() > max_elements;
  });
}

// Returns true if a size of a result is unknown.
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

// Splits a graph into pieces, each a model of its own: a million nodes would take more than a gigabyte as messages.
// Values of earlier pieces become inputs with their types; values computed from sizes are not passed on.
class Pieces {
 public:
  Pieces(const ModelParts& parts, const Sizes& sizes) : parts_(parts), sizes_(sizes), base_(parts.frame) {
    base_.clear_metadata_props();
    onnx::GraphProto& graph = *base_.mutable_graph();
    for (onnx::ValueInfoProto& input : *graph.mutable_input()) set_sizes(input, sizes, true);
    for (onnx::ValueInfoProto& output : *graph.mutable_output()) set_sizes(output, sizes, false);
    for (const onnx_file::OnnxFunction& function : parts.functions) *base_.add_functions() = proto_of(function);
    for (const onnx::ValueInfoProto& input : graph.input()) inputs_.insert(input.name());
    for (const OnnxTensor& tensor : parts.graph.initializers) weights_.emplace(tensor.name, &tensor);
    for (const onnx_file::OnnxValue& value : parts.graph.value_info) stated_.emplace(value.name, &value);
  }

  const onnx::GraphProto& interface() const { return base_.graph(); }

  onnx::ValueInfoProto stated(const onnx_file::OnnxValue& value) const {
    onnx::ValueInfoProto stated = value_proto(value);
    set_sizes(stated, sizes_, false);
    return stated;
  }

  // Returns a piece. `known`: types of the values of earlier pieces.
  onnx::ModelProto of(std::span<const OnnxNode> nodes, const ValueTypes& known) const {
    onnx::ModelProto model = base_;
    onnx::GraphProto& graph = *model.mutable_graph();
    FlatSet<std::string_view> produced, added;
    for (const OnnxNode& node : nodes) {
      *graph.add_node() = bare_proto(node);
      for (const std::string_view output : node.outputs) {
        if (!produced.insert(output).second) continue;
        if (const auto value = stated_.find(output); value != stated_.end()) {
          *graph.add_value_info() = stated(*value->second);
        }
      }
    }
    auto& outputs = *graph.mutable_output();
    outputs.erase(std::remove_if(outputs.begin(), outputs.end(),
                                 [&](const auto& each) { return !produced.contains(each.name()); }),
                  outputs.end());
    const auto add_read = [&](std::string_view name) {
      if (added.insert(name).second && !produced.contains(name)) add_input(name, known, graph);
    };
    for (const OnnxNode& node : nodes) {
      onnx_file::walk_nodes(node, [&](const OnnxNode& each) {
        for (const std::string_view input : each.inputs) add_read(input);
        for (const onnx_file::OnnxGraph& body : each.subgraphs) {
          for (const onnx_file::OnnxValue& result : body.outputs) add_read(result.name);
        }
      });
    }
    return model;
  }

 private:
  // Adds a value from outside the piece. Inference reads small weights (sizes, axes); of others it needs only the type.
  void add_input(std::string_view name, const ValueTypes& known, onnx::GraphProto& graph) const {
    const auto weight = weights_.find(name);
    if (weight != weights_.end() && is_small(*weight->second)) {
      *graph.add_initializer() = proto_of(*weight->second);
    } else if (!inputs_.contains(name)) {
      const auto type = known.find(name);
      if (weight == weights_.end() && type == known.end()) return;
      onnx::ValueInfoProto& input = *graph.add_input();
      input.set_name(std::string(name));
      *input.mutable_type() = weight != weights_.end() ? type_of(*weight->second) : *type->second;
    }
  }

  const ModelParts& parts_;
  const Sizes& sizes_;
  onnx::ModelProto base_;  // everything except nodes, weights and types of values
  FlatSet<std::string> inputs_;
  FlatMap<std::string_view, const OnnxTensor*> weights_;
  FlatMap<std::string_view, const onnx_file::OnnxValue*> stated_;
};

// Returns false if onnx refuses a node.
bool run_inference(onnx::ModelProto& model) {
  replace_undefined_operators(model);
  try {
    // Follows sizes through Shape, Gather and Concat, so that dynamic sizes keep their names.
    const onnx::ShapeInferenceOptions follow_sizes(/*check_type_val=*/false, /*strict_mode_val=*/0,
                                                   /*data_prop_val=*/!holds_long_vector(model.graph()));
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), follow_sizes);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// Calls `add(value)` for each value in the graph's bodies with a known type.
void for_each_type_in_bodies(const onnx::GraphProto& graph, const auto& add) {
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
        for_each_type_in_bodies(*body, add);
      }
    }
  }
}

}  // namespace

ValueTypes value_types(const ModelParts& parts, const Sizes& sizes) {
  constexpr std::size_t max_nodes_of_piece = 100'000;
  ValueTypes types;
  std::unordered_map<std::string, std::shared_ptr<const onnx::TypeProto>> distinct;  // by the bytes of the type
  const auto add = [&](const onnx::ValueInfoProto& value) {
    if (!value.has_type()) return;
    auto& known = distinct[value.type().SerializeAsString()];
    if (known == nullptr) known = std::make_shared<const onnx::TypeProto>(value.type());
    types.insert_or_assign(value.name(), known);
  };
  const auto add_new = [&](const onnx::ValueInfoProto& value) {
    if (!types.contains(value.name())) add(value);
  };
  const Pieces pieces(parts, sizes);
  for (const onnx::ValueInfoProto& input : pieces.interface().input()) add(input);
  const std::span<const OnnxNode> nodes = parts.graph.nodes;
  const bool inferable = can_infer(parts);
  for (std::size_t first = 0; inferable && first < nodes.size(); first += max_nodes_of_piece) {
    const auto piece = nodes.subspan(first, std::min(max_nodes_of_piece, nodes.size() - first));
    onnx::ModelProto model = pieces.of(piece, types);
    // Falls back to the types that the file states if inference refuses a node.
    if (!run_inference(model)) model = pieces.of(piece, types);
    if (!sizes.empty() || lacks_types(model.graph())) follow_sizes(model);
    for (const auto* values : {&model.graph().value_info(), &model.graph().output()}) {
      for (const onnx::ValueInfoProto& value : *values) add(value);
    }
    for_each_type_in_bodies(model.graph(), add_new);
  }
  for (const onnx_file::OnnxValue& value : parts.graph.value_info) {
    if (!types.contains(value.name)) add(pieces.stated(value));
  }
  for (const onnx::ValueInfoProto& output : pieces.interface().output()) add_new(output);
  release_freed_memory();
  for (const OnnxTensor& tensor : parts.graph.initializers) {
    onnx::ValueInfoProto value;
    value.set_name(std::string(tensor.name));
    *value.mutable_type() = type_of(tensor);
    add(value);
  }
  return types;
}

}  // namespace whence::functions
