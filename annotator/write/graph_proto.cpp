#include "annotator/write/graph_proto.h"

#include <algorithm>
#include <set>

#include "annotator/origin/keys/origin.h"
#include "annotator/origin/keys/undo.h"
#include "annotator/origin/stamp.h"
#include "schema/result.h"

namespace whence::write {

namespace keys = origin::keys;
using graph::Graph;
using graph::GraphValueId;
using graph::Initializer;
using graph::no_value;

namespace {

// Dynamic sizes without a name are left unset, because neither a number nor a name would be right.
void fill_type(const graph::GraphValue& value, const IndexedVector<SymbolId, Symbol>& symbols, onnx::TypeProto& type) {
  onnx::TypeProto& proto = value.sequence   ? *type.mutable_sequence_type()->mutable_elem_type()
                           : value.optional ? *type.mutable_optional_type()->mutable_elem_type()
                                            : type;
  onnx::TypeProto_Tensor& tensor = *proto.mutable_tensor_type();
  tensor.set_elem_type(to_onnx(value.dtype));
  if (!value.dims) return;
  onnx::TensorShapeProto& shape = *tensor.mutable_shape();
  for (const Dim& dim : *value.dims) {
    onnx::TensorShapeProto_Dimension& proto_dim = *shape.add_dim();
    if (dim.is_static()) proto_dim.set_dim_value(dim.size);
    if (dim.dynamic && dim.symbol != none_id) proto_dim.set_dim_param(symbols[dim.symbol].name);
  }
}

bool has_attribute(const onnx::FunctionProto& function, const std::string& name) {
  return std::ranges::find(function.attribute(), name) != function.attribute().end() ||
         std::ranges::any_of(function.attribute_proto(), [&](const auto& known) { return known.name() == name; });
}

void add_entry(std::string_view key, const std::string& value,
               google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>& entries) {
  onnx::StringStringEntryProto& entry = *entries.Add();
  entry.set_key(std::string(key));
  entry.set_value(value);
}

}  // namespace

onnx::TensorProto tensor_header(const TensorData& data, const std::string& name) {
  const int type = to_onnx(data.dtype);
  if (type == onnx::TensorProto::UNDEFINED) {
    throw Error(Code::unsupported_feature,
                "ONNX has no tensors of dtype " + std::string(name_of(data.dtype)) + ": " + name,
                "convert the tensor to another dtype in the model", {.stage = "write"});
  }
  if (data.bytes.size() != static_cast<std::uint64_t>(data.element_count()) * size_of(data.dtype)) {
    throw Error(Code::corrupt_file,
                "tensor " + name + " has " + std::to_string(data.bytes.size()) + " bytes for " +
                    std::to_string(data.element_count()) + " elements: the model is inconsistent about its shape",
                "save the model again; if that does not help, please report this with it", {.stage = "write"});
  }
  onnx::TensorProto proto;
  for (const std::int64_t size : data.shape) proto.add_dims(size);
  proto.set_data_type(type);
  if (!name.empty()) proto.set_name(name);
  return proto;
}

std::vector<const Initializer*> weights_first(const std::vector<Initializer>& initializers) {
  std::vector<const Initializer*> ordered;
  for (const Initializer& initializer : initializers) ordered.push_back(&initializer);
  std::ranges::stable_partition(ordered, &Initializer::parameter);
  return ordered;
}

onnx::TensorProto GraphProtoMaker::tensor_header(const Initializer& initializer) const {
  return write::tensor_header(initializer.data, names_.of(graph_, initializer.value));
}

onnx::GraphProto GraphProtoMaker::nodes() {
  onnx::GraphProto proto;
  fill_nodes(graph_, proto);
  proto.set_name("main_graph");
  return proto;
}

onnx::GraphProto GraphProtoMaker::interface(bool initializers_too) {
  onnx::GraphProto proto;
  fill_interface(graph_, proto);
  fill_initializers(proto, initializers_too);
  for (const auto& [key, value] : metadata_.graph) add_entry(key, value, *proto.mutable_metadata_props());
  // Writes types of values only for results of custom operators, which readers cannot infer. For standard operators
  // every reader infers them exactly; a recorded shape would repeat that, or contradict it if a size depends on data.
  for (const graph::GraphNode& node : graph_.nodes) {
    if (node.domain.empty()) continue;
    for (const GraphValueId id : node.outputs) {
      if (id == no_value || graph_.values[id].dtype == DType::undefined) continue;
      onnx::ValueInfoProto& info = *proto.add_value_info();
      info.set_name(names_.of(graph_, id));
      fill_type(graph_.values[id], graph_.symbols, *info.mutable_type());
    }
  }
  return proto;
}

// Initializers carry no metadata that other tools read: they look in value_info, or in the input if the initializer is
// one.
void GraphProtoMaker::fill_initializers(onnx::GraphProto& proto, bool as_inputs) const {
  for (const Initializer* each : weights_first(graph_.initializers)) {
    const Initializer& initializer = *each;
    if (!as_inputs && !metadata_.values.contains(initializer.value)) continue;
    onnx::ValueInfoProto& info = as_inputs ? *proto.add_input() : *proto.add_value_info();
    info.set_name(names_.of(graph_, initializer.value));
    onnx::TypeProto_Tensor& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(to_onnx(initializer.data.dtype));
    onnx::TensorShapeProto& shape = *tensor.mutable_shape();
    for (const std::int64_t size : initializer.data.shape) shape.add_dim()->set_dim_value(size);
    describe(initializer.value, info);
  }
}

void GraphProtoMaker::describe(GraphValueId id, onnx::ValueInfoProto& info) const {
  const auto found = metadata_.values.find(id);
  if (found == metadata_.values.end()) return;
  for (const auto& [key, value] : found->second) add_entry(key, value, *info.mutable_metadata_props());
}

void GraphProtoMaker::fill_interface(const Graph& graph, onnx::GraphProto& proto) const {
  const auto fill = [&](GraphValueId id, onnx::ValueInfoProto& info) {
    info.set_name(names_.of(graph, id));
    // Values of a body use the symbols of the outermost graph.
    if (graph.values[id].dtype != DType::undefined) fill_type(graph.values[id], graph_.symbols, *info.mutable_type());
    if (&graph == &graph_) describe(id, info);
  };
  for (const GraphValueId id : graph.inputs) fill(id, *proto.add_input());
  for (const GraphValueId id : graph.outputs) fill(id, *proto.add_output());
}

void GraphProtoMaker::add_origin(const origin::NodeOrigin& origin, onnx::NodeProto& node) const {
  auto& entries = *node.mutable_metadata_props();
  add_entry(keys::op, origin::to_stamp(origin), entries);
  if (keys_ == nullptr) return;
  for (const auto& [key, value] : keys_->of_export(origin, node.domain(), node.op_type(), {}))
    add_entry(key, value, entries);
}

onnx::FunctionProto GraphProtoMaker::function(const onnx::FunctionProto& function, const origin::NodeOrigin& origin) {
  onnx::FunctionProto result = function;
  for (onnx::NodeProto& node : *result.mutable_node()) {
    if (keys_ != nullptr) {
      std::string name = node_names_.claim(keys_->path(origin) + "/" + node.op_type());
      if (name != node.name()) add_entry(keys::original_name, node.name(), *node.mutable_metadata_props());
      node.set_name(std::move(name));
    }
    if (stamp_origins_) add_origin(origin, node);
  }
  return result;
}

void GraphProtoMaker::fill_nodes(const Graph& graph, onnx::GraphProto& proto) {
  for (const graph::GraphNode& node : graph.nodes) {
    if (node.removed) continue;
    onnx::NodeProto& to = *proto.add_node();
    to.set_op_type(node.op_type);
    if (!node.domain.empty()) to.set_domain(node.domain);
    to.set_name(node_names_.claim(node.name.empty() ? node.op_type : node.name));
    for (const GraphValueId id : node.inputs) to.add_input(names_.of(graph, id));
    for (const GraphValueId id : node.outputs) to.add_output(names_.of(graph, id));
    const onnx::FunctionProto* called = functions_ ? functions_->find(node.domain, node.op_type) : nullptr;
    for (const graph::Attribute& attribute : node.attributes) {
      if (called == nullptr || has_attribute(*called, attribute.name)) fill_attribute(attribute, *to.add_attribute());
    }
    if (stamp_origins_) add_origin(node.origin, to);
  }
}

void GraphProtoMaker::fill_attribute(const graph::Attribute& attribute, onnx::AttributeProto& proto) {
  proto.set_name(attribute.name);
  if (const auto* number = std::get_if<std::int64_t>(&attribute.value)) {
    proto.set_type(onnx::AttributeProto::INT);
    proto.set_i(*number);
  } else if (const auto* real = std::get_if<float>(&attribute.value)) {
    proto.set_type(onnx::AttributeProto::FLOAT);
    proto.set_f(*real);
  } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
    proto.set_type(onnx::AttributeProto::STRING);
    proto.set_s(*text);
  } else if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&attribute.value)) {
    proto.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t element : *numbers) proto.add_ints(element);
  } else if (const auto* reals = std::get_if<std::vector<float>>(&attribute.value)) {
    proto.set_type(onnx::AttributeProto::FLOATS);
    for (const float element : *reals) proto.add_floats(element);
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute.value)) {
    proto.set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& element : *texts) proto.add_strings(element);
  } else if (const auto* tensor = std::get_if<TensorData>(&attribute.value)) {
    proto.set_type(onnx::AttributeProto::TENSOR);
    *proto.mutable_t() = write::tensor_header(*tensor, "");
    const auto bytes = tensor->bytes.in_memory().value();
    proto.mutable_t()->set_raw_data(bytes.data(), bytes.size());
  } else if (const auto* type = std::get_if<graph::TensorType>(&attribute.value)) {
    proto.set_type(onnx::AttributeProto::TYPE_PROTO);
    proto.mutable_tp()->mutable_tensor_type()->set_elem_type(to_onnx(type->dtype));
  } else {
    proto.set_type(onnx::AttributeProto::GRAPH);
    *proto.mutable_g() = body(*std::get<std::shared_ptr<Graph>>(attribute.value), attribute.name);
  }
}

onnx::GraphProto GraphProtoMaker::body(const Graph& graph, const std::string& name) {
  onnx::GraphProto proto;
  fill_nodes(graph, proto);
  proto.set_name(name);
  for (const Initializer& initializer : graph.initializers) {
    onnx::TensorProto& tensor = *proto.add_initializer();
    tensor = write::tensor_header(initializer.data, names_.of(graph, initializer.value));
    const Bytes& stored = initializer.data.bytes;
    const Bytes written = stored.computed_when_written() ? stored.compute() : stored;
    const auto bytes = written.in_memory().value();
    tensor.set_raw_data(bytes.data(), bytes.size());
  }
  fill_interface(graph, proto);
  fill_lengths_of_sizes(graph, proto);
  return proto;
}

// Adds the lengths of `sizes` vectors of Resize nodes in a body. onnx's shape inference does not see constants outside
// the body: for a vector concatenated from single sizes (Unsqueeze, Concat) it infers the length 0 and rejects the
// Resize. The length is one size per axis.
void GraphProtoMaker::fill_lengths_of_sizes(const Graph& body, onnx::GraphProto& proto) const {
  constexpr std::size_t sizes_input = 3;
  std::set<GraphValueId> stated;
  for (const graph::GraphNode& node : body.nodes) {
    if (node.removed || !node.domain.empty() || node.op_type != "Resize" || node.inputs.size() <= sizes_input) continue;
    const GraphValueId sizes = node.inputs[sizes_input];
    const auto* axes = node.find("axes");
    const auto& dims = body.values[node.inputs[0]].dims;
    if (sizes == no_value || body.values[sizes].producer < 0 || (axes == nullptr && !dims)) continue;
    if (!stated.insert(sizes).second) continue;
    const std::size_t length = axes == nullptr ? dims->size() : std::get<std::vector<std::int64_t>>(axes->value).size();
    onnx::ValueInfoProto& info = *proto.add_value_info();
    info.set_name(names_.of(body, sizes));
    onnx::TypeProto_Tensor& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(onnx::TensorProto::INT64);
    tensor.mutable_shape()->add_dim()->set_dim_value(static_cast<std::int64_t>(length));
  }
}

}  // namespace whence::write
