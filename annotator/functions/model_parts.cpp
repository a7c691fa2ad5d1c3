#include "annotator/functions/model_parts.h"

#include <functional>

#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/onnx_file/wire_in.h"
#include "annotator/origin/keys.h"
#include "annotator/write/model_layout.h"
#include "schema/result.h"

namespace whence::functions {

namespace keys = origin::keys;
namespace wire = onnx_file::wire;

namespace {

// Field numbers of onnx.proto.
constexpr std::uint32_t model_graph = 7;
constexpr std::uint32_t graph_initializer = 5;
constexpr std::uint32_t tensor_raw_data = 9;
constexpr std::uint64_t protobuf_limit = (1ULL << 31) - 1;

// Calls `visit` with each of the tensors, those of nested graphs included.
void visit_tensors(auto& nodes, const std::function<void(onnx::TensorProto&)>& visit);

void visit_tensors(onnx::SparseTensorProto& sparse, const std::function<void(onnx::TensorProto&)>& visit) {
  if (sparse.has_values()) visit(*sparse.mutable_values());
  if (sparse.has_indices()) visit(*sparse.mutable_indices());
}

void visit_tensors(onnx::GraphProto& graph, const std::function<void(onnx::TensorProto&)>& visit) {
  for (onnx::TensorProto& tensor : *graph.mutable_initializer()) visit(tensor);
  for (onnx::SparseTensorProto& sparse : *graph.mutable_sparse_initializer()) visit_tensors(sparse, visit);
  visit_tensors(*graph.mutable_node(), visit);
}

void visit_tensors(auto& nodes, const std::function<void(onnx::TensorProto&)>& visit) {
  for (onnx::NodeProto& node : nodes) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) visit(*attribute.mutable_t());
      if (attribute.has_sparse_tensor()) visit_tensors(*attribute.mutable_sparse_tensor(), visit);
      if (attribute.has_g()) visit_tensors(*attribute.mutable_g(), visit);
      for (onnx::TensorProto& tensor : *attribute.mutable_tensors()) visit(tensor);
      for (onnx::SparseTensorProto& sparse : *attribute.mutable_sparse_tensors()) visit_tensors(sparse, visit);
      for (onnx::GraphProto& graph : *attribute.mutable_graphs()) visit_tensors(graph, visit);
    }
  }
}

// Calls `visit` with every tensor of the model that lies in another file.
void visit_external(ModelParts& parts, const std::function<void(onnx::TensorProto&)>& visit) {
  const auto visit_tensor = [&](onnx::TensorProto& tensor) {
    if (tensor.data_location() == onnx::TensorProto::EXTERNAL) visit(tensor);
  };
  for (StoredTensor& tensor : parts.initializers) visit_tensor(tensor.header);
  visit_tensors(*parts.model.mutable_graph(), visit_tensor);
  for (onnx::FunctionProto& function : *parts.model.mutable_functions()) {
    visit_tensors(*function.mutable_node(), visit_tensor);
  }
}

std::string* external_entry(onnx::TensorProto& tensor, std::string_view key) {
  for (onnx::StringStringEntryProto& entry : *tensor.mutable_external_data()) {
    if (entry.key() == key) return entry.mutable_value();
  }
  return nullptr;
}

// Of data files.
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

// Sorts the fields of a message: `take` gets those it asks for, the rest is copied to the result.
template <class Take>
std::string split_message(std::string_view message, const Place& place, const Take& take) {
  std::string rest;
  wire::FieldReader fields(message, place);
  while (!fields.done()) {
    const char* const begin = fields.position();
    const wire::Field field = fields.next();
    if (!take(field)) rest.append(begin, fields.position());
  }
  return rest;
}

template <class Message>
void parse(Message& message, const std::string& text, const Place& place) {
  if (message.ParseFromString(text)) return;
  throw Error(Code::corrupt_file, "not what onnx.proto describes", "export or download the file again", place);
}

class Reader {
 public:
  Reader(ModelParts& parts, const Place& place) : parts_(parts), place_(place) {}

  void read() {
    std::string graph;
    const std::string rest = split_message(parts_.file->text(), place_, [&](const wire::Field& field) {
      if (!field.is_bytes(model_graph)) return false;
      graph += read_graph(field.bytes);  // protobuf merges a message that stands twice
      return true;
    });
    parse(parts_.model, rest, place_);
    parse(*parts_.model.mutable_graph(), graph, place_);
  }

 private:
  std::string read_graph(std::string_view message) {
    return split_message(message, place_, [&](const wire::Field& field) {
      if (!field.is_bytes(graph_initializer)) return false;
      read_initializer(field.bytes);
      return true;
    });
  }

  void read_initializer(std::string_view message) {
    StoredTensor tensor;
    const std::string header = split_message(message, place_, [&](const wire::Field& field) {
      if (!field.is_bytes(tensor_raw_data)) return false;
      const auto offset = static_cast<std::size_t>(field.bytes.data() - parts_.file->text().data());
      tensor.raw = Bytes::part_of(parts_.file, field.bytes.data(), field.bytes.size())
                       .stored_in(parts_.file->bytes_path(), offset);
      return true;
    });
    parse(tensor.header, header, place_);
    parts_.initializers.push_back(std::move(tensor));
  }

  ModelParts& parts_;
  const Place& place_;
};

}  // namespace

bool StoredTensor::small() const {
  return !external() && (!raw || raw->size() <= small_tensor) && header.ByteSizeLong() <= 2 * small_tensor;
}

onnx::TensorProto StoredTensor::whole() const {
  onnx::TensorProto tensor = header;
  if (!raw) return tensor;
  const auto bytes = raw->in_memory().value();
  tensor.set_raw_data(bytes.data(), bytes.size());
  return tensor;
}

std::int64_t ModelParts::opset(const std::string& domain) const {
  for (const onnx::OperatorSetIdProto& import : model.opset_import()) {
    if (import.domain() == domain || (domain.empty() && import.domain() == "ai.onnx")) return import.version();
  }
  return -1;
}

void ModelParts::import(const std::string& domain, std::int64_t version) {
  if (opset(domain) >= 0) return;
  onnx::OperatorSetIdProto& import = *model.add_opset_import();
  import.set_domain(domain);
  import.set_version(version);
}

ModelParts read_model_parts(const onnx_file::ModelSource& source) {
  const auto summary =
      onnx_file::read_onnx_summary(source);  // says what is wrong with a file that is not an ONNX model
  if (!summary) throw Error(summary.diagnostics());
  ModelParts parts;
  parts.path = source.stands_for;
  parts.file = summary->file;
  const Place place{.file = parts.path, .stage = "read"};
  Reader(parts, place).read();
  return parts;
}

void write_model_parts(ModelParts parts, const onnx_file::ModelOutput& output) {
  onnx_file::DataFiles data_files;
  visit_external(parts, [&](onnx::TensorProto& tensor) {
    const auto text = [&](const char* key) -> std::string_view {
      const std::string* entry = external_entry(tensor, key);
      return entry == nullptr ? std::string_view() : *entry;
    };
    data_files.add(text("location"), text("offset"), text("length"));
  });
  data_files.former = former_names(parts.model);
  const onnx_file::CarriedData data(data_files, parts.path, output);
  if (!data.new_locations().empty()) set_former_names(data.former(), parts.model);
  visit_external(parts, [&](onnx::TensorProto& tensor) {
    std::string* location = external_entry(tensor, "location");
    const auto found = location == nullptr ? data.new_locations().end() : data.new_locations().find(*location);
    if (found != data.new_locations().end()) *location = found->second;
  });
  onnx::ModelProto tail = parts.model;
  write::ModelLayout layout;
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

  onnx::GraphProto graph_tail;
  graph_tail.Swap(tail.mutable_graph());
  tail.clear_graph();
  layout.tail = tail.SerializeAsString();
  onnx::GraphProto graph_head;
  graph_head.mutable_node()->Swap(graph_tail.mutable_node());
  if (graph_tail.has_name()) graph_head.set_name(graph_tail.name());
  graph_tail.clear_name();
  layout.graph_head = graph_head.SerializeAsString();
  layout.graph_tail = graph_tail.SerializeAsString();
  for (const StoredTensor& tensor : parts.initializers) {
    layout.initializers.push_back({tensor.header.SerializeAsString(), tensor.raw ? &*tensor.raw : nullptr});
  }
  if (layout.size() > protobuf_limit) {
    throw Error(Code::over_limit,
                "the file would need " + std::to_string(layout.size()) + " bytes, more than protobuf holds",
                "keep the weights in external data", {.file = output.path, .stage = "write"});
  }

  OutputFiles files;
  AtomicFile& to = files.add(output.path);
  data.add_to(files);
  layout.write(to);
  files.commit();
}

}  // namespace whence::functions
