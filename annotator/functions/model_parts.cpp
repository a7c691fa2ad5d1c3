#include "annotator/functions/model_parts.h"

#include <set>

#include "annotator/functions/node_values.h"
#include "annotator/functions/plain_node.h"
#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/read_parts.h"
#include "annotator/onnx_file/summary_of_bytes.h"
#include "annotator/onnx_file/walk.h"
#include "annotator/onnx_file/wire_in.h"
#include "annotator/onnx_file/wire_out.h"
#include "annotator/origin/keys/undo.h"
#include "annotator/write/model_layout.h"
#include "schema/result.h"

namespace whence::functions {

namespace keys = origin::keys;
namespace proto = onnx_file::proto;
namespace wire = onnx_file::wire;
using onnx_file::OnnxFunction;
using onnx_file::OnnxNode;
using onnx_file::OnnxSummary;
using onnx_file::OnnxTensor;
using onnx_file::OnnxValue;

namespace {

constexpr std::uint64_t protobuf_limit = (1ULL << 31) - 1;

// Returns a message without the fields for which `drop` returns true.
template <class Drop>
std::string without_fields(std::string_view message, const Place& place, const Drop& drop) {
  std::string remaining;
  for (const wire::Field& field : wire::Fields(message, place)) {
    if (!drop(field)) remaining += field.span;
  }
  return remaining;
}

template <class Message>
Message parsed(std::string_view text, const Place& place) {
  Message message;
  if (text.size() < protobuf_limit && message.ParseFromArray(text.data(), static_cast<int>(text.size()))) {
    return message;
  }
  throw Error(Code::corrupt_file, "the file does not follow onnx.proto", "export or download the file again", place);
}

// The place for errors that cannot occur: the messages were checked when the file was read, or made here.
const Place& no_place() {
  static const Place place{.stage = "read"};
  return place;
}

// Returns the former names of data files, from the model's metadata.
onnx_file::Locations former_names(const onnx::ModelProto& model) {
  for (const onnx::StringStringEntryProto& entry : model.metadata_props()) {
    if (entry.key() == keys::data_files) return onnx_file::parse_former(entry.value());
  }
  return {};
}

void set_former_names(const std::string& names, onnx::ModelProto& model) {
  auto& entries = *model.mutable_metadata_props();
  for (int i = entries.size() - 1; i >= 0; --i) {
    if (entries.Get(i).key() == keys::data_files) entries.DeleteSubrange(i, 1);
  }
  if (names.empty()) return;
  onnx::StringStringEntryProto& entry = *entries.Add();
  entry.set_key(std::string(keys::data_files));
  entry.set_value(names);
}

// Writes the new locations of data files into the tensors of a message.
class Relocation {
 public:
  explicit Relocation(const onnx_file::Locations& locations) : locations_(locations) {}

  bool empty() const { return locations_.empty(); }

  void apply(onnx::TensorProto& tensor) const {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return;
    for (onnx::StringStringEntryProto& entry : *tensor.mutable_external_data()) {
      if (entry.key() != "location") continue;
      if (const auto found = locations_.find(entry.value()); found != locations_.end()) entry.set_value(found->second);
      return;
    }
  }

  void apply(onnx::SparseTensorProto& sparse) const {
    if (sparse.has_values()) apply(*sparse.mutable_values());
    if (sparse.has_indices()) apply(*sparse.mutable_indices());
  }

  void apply(onnx::NodeProto& node) const {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) apply(*attribute.mutable_t());
      if (attribute.has_sparse_tensor()) apply(*attribute.mutable_sparse_tensor());
      for (onnx::TensorProto& tensor : *attribute.mutable_tensors()) apply(tensor);
      for (onnx::SparseTensorProto& sparse : *attribute.mutable_sparse_tensors()) apply(sparse);
    }
    for_each_body(node, [&](onnx::GraphProto& body) {
      for (onnx::TensorProto& tensor : *body.mutable_initializer()) apply(tensor);
      for (onnx::SparseTensorProto& sparse : *body.mutable_sparse_initializer()) apply(sparse);
      for (onnx::NodeProto& inner : *body.mutable_node()) apply(inner);
    });
  }

 private:
  const onnx_file::Locations& locations_;
};

// Lays out the fields before and after the graph, in protobuf's order.
void lay_out_frame(onnx::ModelProto tail, write::ModelLayout& layout) {
  onnx::ModelProto head;
  head.set_ir_version(tail.ir_version());
  if (tail.has_producer_name()) head.set_producer_name(tail.producer_name());
  if (tail.has_producer_version()) head.set_producer_version(tail.producer_version());
  if (tail.has_domain()) head.set_domain(tail.domain());
  if (tail.has_model_version()) head.set_model_version(tail.model_version());
  if (tail.has_doc_string()) head.set_doc_string(tail.doc_string());
  layout.head = head.SerializeAsString();
  tail.clear_ir_version(), tail.clear_producer_name(), tail.clear_producer_version(), tail.clear_domain();
  tail.clear_model_version(), tail.clear_doc_string();
  tail.clear_graph();
  layout.tail = tail.SerializeAsString();
}

// Returns the raw data of a tensor, without copying it if it is in the file; nullopt if the tensor has none.
std::optional<Bytes> raw_data(const ModelParts& parts, const OnnxTensor& tensor) {
  if (tensor.raw.data() == nullptr) return std::nullopt;
  const std::string_view file = parts.file->text();
  if (tensor.raw.data() < file.data() || tensor.raw.data() >= file.data() + file.size()) {
    return Bytes::copy_of(tensor.raw.data(), tensor.raw.size());
  }
  return Bytes::part_of(parts.file, tensor.raw.data(), tensor.raw.size())
      .stored_in(parts.file->bytes_path(), static_cast<std::size_t>(tensor.raw.data() - file.data()));
}

// Returns an initializer without its raw data.
onnx::TensorProto header_of(const OnnxTensor& tensor, const Place& place) {
  const auto is_raw = [](const wire::Field& field) { return field.is_bytes(proto::tensor::raw_data); };
  return parsed<onnx::TensorProto>(without_fields(tensor.message, place, is_raw), place);
}

onnx_file::DataFiles data_files_of(ModelParts& parts) {
  OnnxSummary structure;
  std::swap(structure.graph, parts.graph), structure.functions.swap(parts.functions);
  onnx_file::DataFiles files = onnx_file::data_files_of(structure);
  std::swap(structure.graph, parts.graph), structure.functions.swap(parts.functions);
  for (const onnx::SparseTensorProto& sparse : parts.frame.graph().sparse_initializer()) {
    for (const onnx::TensorProto* tensor : {&sparse.values(), &sparse.indices()}) {
      if (tensor->data_location() != onnx::TensorProto::EXTERNAL) continue;
      const auto text = [&](std::string_view key) -> std::string_view {
        for (const onnx::StringStringEntryProto& entry : tensor->external_data()) {
          if (entry.key() == key) return entry.value();
        }
        return {};
      };
      files.add(text("location"), text("offset"), text("length"));
    }
  }
  files.former = former_names(parts.frame);
  return files;
}

// Throws for parts of the file that do not follow onnx.proto, so that later conversions to messages cannot fail.
void check_messages(const ModelParts& parts) {
  const Place place = parts.place();
  for (const OnnxNode& node : parts.graph.nodes) {
    if (!read_plain_node(node.read())) parsed<onnx::NodeProto>(node.message, place);
  }
  for (const OnnxValue& value : parts.graph.value_info) parsed<onnx::ValueInfoProto>(value.message, place);
  for (const OnnxFunction& function : parts.functions) parsed<onnx::FunctionProto>(function.message, place);
  for (const OnnxTensor& tensor : parts.graph.initializers) header_of(tensor, place);
}

}  // namespace

bool is_small(const OnnxTensor& tensor) {
  return !tensor.external && tensor.raw.size() <= max_small_tensor_bytes &&
         tensor.message.size() - tensor.raw.size() <= 2 * max_small_tensor_bytes;
}

std::int64_t ModelParts::opset(const std::string& domain) const {
  for (const onnx::OperatorSetIdProto& import : frame.opset_import()) {
    if (import.domain() == domain || (domain.empty() && import.domain() == "ai.onnx")) return import.version();
  }
  return -1;
}

void ModelParts::import(const std::string& domain, std::int64_t version) {
  if (opset(domain) >= 0) return;
  onnx::OperatorSetIdProto& import = *frame.add_opset_import();
  import.set_domain(domain);
  import.set_version(version);
}

std::string_view ModelParts::store(const google::protobuf::Message& message) {
  return new_messages->emplace_back(message.SerializeAsString());
}
OnnxNode ModelParts::node(const onnx::NodeProto& message) { return onnx_file::read_node(store(message), place()); }
OnnxTensor ModelParts::tensor(const onnx::TensorProto& message) {
  return onnx_file::read_tensor(store(message), place());
}
OnnxValue ModelParts::value(const onnx::ValueInfoProto& message) {
  return onnx_file::read_value(store(message), place());
}
OnnxFunction ModelParts::function(const onnx::FunctionProto& message) {
  return onnx_file::read_function(store(message), place());
}

onnx::NodeProto proto_of(const OnnxNode& node) { return parsed<onnx::NodeProto>(node.read(), no_place()); }
onnx::TensorProto proto_of(const OnnxTensor& tensor) { return parsed<onnx::TensorProto>(tensor.message, no_place()); }
onnx::FunctionProto proto_of(const OnnxFunction& function) {
  return parsed<onnx::FunctionProto>(function.message, no_place());
}
onnx::ValueInfoProto value_proto(const OnnxValue& value) {
  return parsed<onnx::ValueInfoProto>(value.message, no_place());
}
onnx::TypeProto type_proto(std::string_view message) { return parsed<onnx::TypeProto>(message, no_place()); }

onnx::NodeProto bare_proto(const OnnxNode& node) {
  return parsed<onnx::NodeProto>(without_fields(node.read(), no_place(),
                                                [](const wire::Field& field) {
                                                  return field.is_bytes(proto::node::name) ||
                                                         field.is_bytes(proto::node::doc_string) ||
                                                         field.is_bytes(proto::node::metadata_props);
                                                }),
                                 no_place());
}

ModelParts read_model_parts(const onnx_file::ModelSource& source) {
  return parts_of(value_of(onnx_file::read_onnx_summary(source)));  // reports files of other kinds
}

ModelParts parts_of(OnnxSummary summary) {
  ModelParts parts;
  parts.path = summary.file->path();
  parts.file = summary.file;
  parts.graph = std::move(summary.graph);
  parts.functions = std::move(summary.functions);
  const Place place = parts.place();
  std::string graph;
  std::set<const char*> sparse;  // the tensors of sparse initializers, which stay in the frame
  onnx_file::PageRelease pages(parts.file);
  const auto is_listed = [&](const wire::Field& field) {
    pages.was_read(field.span.size());
    if (field.is_bytes(proto::graph::sparse_initializer)) {
      for (const wire::Field& part : wire::Fields(field.bytes, place)) sparse.insert(part.bytes.data());
    }
    return field.is_bytes(proto::graph::node) || field.is_bytes(proto::graph::initializer) ||
           field.is_bytes(proto::graph::value_info);
  };
  const std::string remaining = without_fields(parts.file->text(), place, [&](const wire::Field& field) {
    // protobuf merges the occurrences of a message field
    if (field.is_bytes(proto::model::graph)) graph += without_fields(field.bytes, place, is_listed);
    return field.is_bytes(proto::model::graph) || field.is_bytes(proto::model::functions);
  });
  parts.frame = parsed<onnx::ModelProto>(remaining, place);
  *parts.frame.mutable_graph() = parsed<onnx::GraphProto>(graph, place);
  std::erase_if(parts.graph.initializers,
                [&](const OnnxTensor& tensor) { return sparse.contains(tensor.message.data()); });
  check_messages(parts);
  return parts;
}

OnnxSummary summary_of(ModelParts parts) {
  struct Owners {
    std::shared_ptr<const MappedFile> file;
    std::shared_ptr<std::deque<std::string>> new_messages;
  };
  const auto owners = std::make_shared<Owners>(Owners{parts.file, parts.new_messages});
  OnnxSummary summary = onnx_file::summary_of_bytes({owners, owners->file.get()}, parts.frame.SerializeAsString());
  summary.graph.nodes = std::move(parts.graph.nodes);
  summary.graph.initializers = std::move(parts.graph.initializers);
  summary.graph.value_info = std::move(parts.graph.value_info);
  summary.functions = std::move(parts.functions);
  return summary;
}

void write_model_parts(ModelParts parts, const onnx_file::ModelOutput& output) {
  const onnx_file::CarriedData data(data_files_of(parts), parts.path, output);
  if (!data.new_locations().empty()) set_former_names(data.former(), parts.frame);
  const Relocation relocation(data.new_locations());

  write::ModelLayout layout;
  layout.nodes_file = parts.file;
  for (const OnnxNode& node : parts.graph.nodes) {
    if (read_plain_node(node.read())) {
      layout.nodes.push_back(node.message);
      continue;
    }
    onnx::NodeProto message = proto_of(node);
    if (!relocation.empty()) relocation.apply(message);
    std::string text = message.SerializeAsString();
    // Most messages already are as protobuf writes them: a million nodes need no second copy.
    layout.nodes.push_back(text == node.message ? node.message : parts.new_messages->emplace_back(std::move(text)));
  }
  onnx::GraphProto& graph = *parts.frame.mutable_graph();
  if (graph.has_name()) wire::append_field(layout.graph_head, proto::graph::name, graph.name());
  graph.clear_name();
  for (const OnnxValue& value : parts.graph.value_info) {
    *graph.add_value_info() = parsed<onnx::ValueInfoProto>(value.message, parts.place());
  }
  for (onnx::SparseTensorProto& sparse : *graph.mutable_sparse_initializer()) relocation.apply(sparse);
  layout.graph_tail = graph.SerializeAsString();
  for (const OnnxFunction& function : parts.functions) {
    onnx::FunctionProto& message = *parts.frame.add_functions() = proto_of(function);
    for (onnx::NodeProto& node : *message.mutable_node()) relocation.apply(node);
  }
  lay_out_frame(std::move(parts.frame), layout);
  std::deque<Bytes> raw;
  for (const OnnxTensor& tensor : parts.graph.initializers) {
    onnx::TensorProto header = header_of(tensor, parts.place());
    relocation.apply(header);
    std::optional<Bytes> bytes = raw_data(parts, tensor);
    const Bytes* const raw_bytes = bytes ? &raw.emplace_back(std::move(*bytes)) : nullptr;
    layout.initializers.push_back({header.SerializeAsString(), raw_bytes});
  }
  if (layout.size() > protobuf_limit) {
    throw Error(Code::over_limit,
                "the file would need " + std::to_string(layout.size()) + " bytes, more than protobuf allows",
                "keep the weights in external data", {.file = output.path, .stage = "write"});
  }

  OutputFiles files;
  AtomicFile& to = files.add(output.path);
  data.add_to(files);
  layout.write(to);
  files.commit();
}

}  // namespace whence::functions
