// How the file is put together: protobuf serialises everything but the initializers' bytes into strings; lengths of the
// enclosing messages are computed by hand; then strings and weight spans go out alternately, in protobuf's own field
// order, so that reading and writing the file with protobuf gives the same bytes again.
#include "annotator/write/onnx_writer.h"

#include <algorithm>
#include <optional>
#include <set>

#include "annotator/write/graph_proto.h"
#include "annotator/write/wire_out.h"
#include "schema/files.h"
#include "schema/result.h"

namespace whence {

namespace {

// Field numbers of onnx.proto.
constexpr std::uint32_t model_graph = 7;
constexpr std::uint32_t graph_initializer = 5;
constexpr std::uint32_t tensor_raw_data = 9;

// Below this size a tensor stays in the model file also with external data: shapes and axes stay readable to tools
// that load the model alone, and onnx's shape inference needs them.
constexpr std::uint64_t smallest_external = 1024;
// Page size, so that runtimes can map each tensor.
constexpr std::uint64_t alignment = 4096;

struct Piece {
  std::string head;  // TensorProto without its bytes
  const Bytes* inline_bytes = nullptr;
  std::uint64_t size() const {
    if (inline_bytes == nullptr) return head.size();
    return head.size() + wire::field_head_size(tensor_raw_data, inline_bytes->size) + inline_bytes->size;
  }
};

struct External {
  std::uint64_t offset;
  const Bytes* bytes;
};

struct Layout {
  std::string graph_head, graph_tail;
  std::vector<Piece> pieces;
  std::vector<External> external;

  std::uint64_t graph_size() const {
    std::uint64_t total = graph_head.size() + graph_tail.size();
    for (const Piece& piece : pieces) total += wire::field_head_size(graph_initializer, piece.size()) + piece.size();
    return total;
  }
};

void add_entry(onnx::TensorProto& tensor, const char* key, const std::string& value) {
  onnx::StringStringEntryProto& entry = *tensor.add_external_data();
  entry.set_key(key);
  entry.set_value(value);
}

// `data_file`: base name of the external data file; empty: everything inline.
Layout lay_out(const Graph& graph, const WriteOptions& options, const std::string& data_file) {
  GraphProtoMaker maker(graph, options.interface, options.stamp_origins);
  Layout layout;
  layout.graph_head = maker.nodes().SerializeAsString();
  layout.graph_tail = maker.interface().SerializeAsString();
  std::uint64_t end = 0;
  for (const Initializer& initializer : graph.initializers) {
    onnx::TensorProto tensor = maker.tensor_header(initializer);
    const Bytes& bytes = initializer.data.bytes;
    Piece piece;
    if (data_file.empty() || bytes.size <= smallest_external) {
      piece.inline_bytes = &bytes;
    } else {
      const std::uint64_t offset = (end + alignment - 1) / alignment * alignment;
      end = offset + bytes.size;
      add_entry(tensor, "location", data_file);
      add_entry(tensor, "offset", std::to_string(offset));
      add_entry(tensor, "length", std::to_string(bytes.size));
      tensor.set_data_location(onnx::TensorProto::EXTERNAL);
      layout.external.push_back({offset, &bytes});
    }
    piece.head = tensor.SerializeAsString();
    layout.pieces.push_back(std::move(piece));
  }
  return layout;
}

void collect_domains(const Graph& graph, std::set<std::string>& domains) {
  for (const GraphNode& node : graph.nodes) {
    domains.insert(node.domain);
    for (const Graph* body : bodies(node)) collect_domains(*body, domains);
  }
}

// ModelProto's fields before the graph (numbers 1 to 6) and after it.
std::string model_head(const WriteOptions& options) {
  onnx::ModelProto model;
  // Node metadata exists from IR 10 on; opset 23 came with IR 11 (onnx/helper.py, VERSION_TABLE).
  model.set_ir_version(std::max(options.ir_version, options.opset >= 23 ? 11 : 10));
  model.set_producer_name("whence");
  if (!options.producer_version.empty()) model.set_producer_version(options.producer_version);
  return model.SerializeAsString();
}

std::string model_tail(const Graph& graph, const WriteOptions& options) {
  onnx::ModelProto model;
  std::set<std::string> domains = {""};
  collect_domains(graph, domains);
  for (const std::string& domain : domains) {
    onnx::OperatorSetIdProto& opset = *model.add_opset_import();
    opset.set_domain(domain);
    opset.set_version(domain.empty() ? options.opset : 1);
  }
  for (const auto& [key, value] : options.metadata) {
    onnx::StringStringEntryProto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  return model.SerializeAsString();
}

void write_model(const Layout& layout, const std::string& head, const std::string& tail, AtomicFile& file) {
  std::string frame = head;
  wire::append_field_head(frame, model_graph, layout.graph_size());
  frame += layout.graph_head;
  for (const Piece& piece : layout.pieces) {
    wire::append_field_head(frame, graph_initializer, piece.size());
    frame += piece.head;
    if (piece.inline_bytes == nullptr) continue;
    wire::append_field_head(frame, tensor_raw_data, piece.inline_bytes->size);
    file.write(frame);
    frame.clear();
    file.write(*piece.inline_bytes);
  }
  file.write(frame);
  file.write(layout.graph_tail);
  file.write(tail);
}

void write_external(const Layout& layout, AtomicFile& file) {
  for (const External& tensor : layout.external) {
    file.write(std::string(tensor.offset - file.position(), '\0'));
    file.write(*tensor.bytes);
  }
}

}  // namespace

void write_onnx(const Graph& graph, const std::string& path, const WriteOptions& options) {
  const std::string head = model_head(options);
  const std::string tail = model_tail(graph, options);
  const auto file_size = [&](const Layout& layout) {
    const std::uint64_t graph_size = layout.graph_size();
    return head.size() + wire::field_head_size(model_graph, graph_size) + graph_size + tail.size();
  };

  const std::string data_file = base_name(path) + ".data";
  Layout layout = lay_out(graph, options, options.external_data ? data_file : "");
  if (!options.external_data && file_size(layout) > options.protobuf_limit) {
    layout = lay_out(graph, options, data_file);
  }
  if (file_size(layout) > options.protobuf_limit) {
    throw Error(Code::over_limit,
                "the graph without its weights needs " + std::to_string(file_size(layout)) + " bytes, more than the " +
                    std::to_string(options.protobuf_limit) + " that protobuf can hold",
                "export a part of the model", {.file = path, .stage = "write"});
  }

  // Both files are complete before either gets its name, and the data is there before the model that refers to it.
  std::optional<AtomicFile> data;
  if (!layout.external.empty()) {
    data.emplace(path + ".data");
    write_external(layout, *data);
  }
  AtomicFile model(path);
  write_model(layout, head, tail, model);
  if (data) data->commit();
  model.commit();
}

}  // namespace whence
