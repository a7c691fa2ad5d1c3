// Skips fields that no report needs, including weights.
#include "annotator/onnx_file/onnx_summary.h"

#include <deque>
#include <utility>

#include "annotator/onnx_file/captured_regions.h"
#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/other_kinds.h"
#include "annotator/onnx_file/read_parts.h"
#include "annotator/onnx_file/summary_of_bytes.h"
#include "annotator/onnx_file/text_pool.h"
#include "annotator/onnx_file/walk.h"
#include "annotator/onnx_file/wire_in.h"
#include "schema/flat_map.h"

namespace whence::onnx_file {
namespace {

using wire::Field;
using wire::Fields;

const Place parsed_before;  // empty place: bytes that were parsed once cannot cause errors

void mark_inputs(std::vector<OnnxNode>& nodes, const FlatSet<std::string_view>& names) {
  for (OnnxNode& node : nodes) {
    for (std::size_t i = 0; i < node.inputs.size() && i < 32; ++i) {
      if (names.contains(node.inputs[i])) node.model_inputs |= 1U << i;
    }
    for (OnnxGraph& body : node.subgraphs) mark_inputs(body.nodes, names);
  }
}

// Marks the nodes that read an input whose name looks like a parameter's: "past_key_values.0.key".
void mark_model_inputs(OnnxGraph& graph) {
  FlatSet<std::string_view> names;
  for (const OnnxValue& input : graph.inputs) {
    if (input.name.find('.') != input.name.npos) names.insert(input.name);
  }
  if (names.empty()) return;
  for (const OnnxTensor& initializer : graph.initializers) names.erase(initializer.name);
  mark_inputs(graph.nodes, names);
}

// Reads single messages of the file named by `place`.
class PartReader {
 public:
  explicit PartReader(const Place& place) : place_(place) {}
  // `pool`: stores the names. `pages`: of the mapped file; null if the model is in memory.
  PartReader(const Place& place, TextPool& pool, PageRelease* pages) : place_(place), pool_(&pool), pages_(pages) {}

  OnnxOpset opset(std::string_view bytes) const {
    OnnxOpset entry;
    for (const Field& field : Fields(bytes, place_)) {
      if (field.is_bytes(proto::opset::domain)) entry.domain = field.bytes;
      if (field.is_varint(proto::opset::version)) entry.version = static_cast<std::int64_t>(field.value);
    }
    if (entry.domain == "ai.onnx") entry.domain = "";
    return entry;
  }

  OnnxTensor tensor(std::string_view bytes) const {
    OnnxTensor entry;
    entry.message = bytes;
    for (const Field& field : Fields(bytes, place_)) {
      if (field.number == proto::tensor::dims) {
        for_each_varint(field, place_, [&](auto size) { entry.dims.push_back(static_cast<std::int64_t>(size)); });
      }
      if (field.is_varint(proto::tensor::data_type)) entry.data_type = static_cast<int>(field.value);
      if (field.is_bytes(proto::tensor::name)) entry.name = text(field.bytes);
      if (field.is_bytes(proto::tensor::raw_data)) {
        entry.raw = field.bytes;
        entry.stored_bytes = field.bytes.size();
      }
      if (field.is_bytes(proto::tensor::external_data)) entry.external_data.push_back(property(field.bytes));
      if (field.is_varint(proto::tensor::data_location)) entry.external = field.value == 1;
      if (field.is_bytes(proto::tensor::metadata_props)) entry.metadata.push_back(property(field.bytes));
    }
    return entry;
  }

  OnnxNode node(std::string_view bytes, int depth) const {
    OnnxNode entry;
    entry.message = bytes;
    reserve(bytes, proto::node::input, entry.inputs, proto::node::attribute, entry.attributes);
    std::string_view metadata;
    for (const Field& field : Fields(bytes, place_)) {
      if (field.is_bytes(proto::node::input)) entry.inputs.push_back(text(field.bytes));
      if (field.is_bytes(proto::node::output)) entry.outputs.push_back(text(field.bytes));
      if (field.is_bytes(proto::node::name)) entry.name = text(field.bytes);
      if (field.is_bytes(proto::node::op_type)) entry.op_type = common(field.bytes);
      if (field.is_bytes(proto::node::attribute)) attribute(field.bytes, entry, depth);
      if (field.is_bytes(proto::node::doc_string)) entry.doc_string = field.bytes;
      if (field.is_bytes(proto::node::domain)) entry.domain = common(field.bytes);
      if (field.is_bytes(proto::node::overload)) entry.overload = text(field.bytes);
      if (field.is_bytes(proto::node::metadata_props)) {
        const OnnxProperty metadata_entry = property(field.bytes);  // throws if the entry is malformed
        has_captured_ = has_captured_ || states_captured_modules(metadata_entry.key, metadata_entry.value);
        const char* const first = metadata.empty() ? field.span.data() : metadata.data();
        metadata = {first, field.span.data() + field.span.size()};
      }
    }
    entry.metadata = NodeMetadata(metadata, pages_);
    if (entry.domain == "ai.onnx") entry.domain = "";
    return entry;
  }

  OnnxGraph graph(std::string_view bytes, int depth) const {
    if (depth > max_nesting) {
      throw Error(Code::over_limit, "graphs are nested more than " + std::to_string(max_nesting) + " levels deep",
                  "inline the branches or loops of the model", place_);
    }
    OnnxGraph entry;
    reserve(bytes, proto::graph::node, entry.nodes, proto::graph::initializer, entry.initializers);
    for (const Field& field : Fields(bytes, place_)) {
      if (field.is_bytes(proto::graph::node)) entry.nodes.push_back(node(field.bytes, depth));
      if (depth == 0 && pages_ != nullptr) pages_->was_read(field.span.size());
      if (field.is_bytes(proto::graph::name)) entry.name = text(field.bytes);
      if (field.is_bytes(proto::graph::initializer)) entry.initializers.push_back(tensor(field.bytes));
      if (field.is_bytes(proto::graph::input)) entry.inputs.push_back(value(field.bytes));
      if (field.is_bytes(proto::graph::output)) entry.outputs.push_back(value(field.bytes));
      if (field.is_bytes(proto::graph::value_info)) entry.value_info.push_back(value(field.bytes));
      if (field.is_bytes(proto::graph::sparse_initializer)) sparse_tensor(field.bytes, entry.initializers);
      if (field.is_bytes(proto::graph::metadata_props)) entry.metadata.push_back(property(field.bytes));
    }
    if (depth == 0) mark_model_inputs(entry);
    return entry;
  }

  OnnxFunction function(std::string_view bytes) const {
    OnnxFunction entry;
    entry.message = bytes;
    for (const Field& field : Fields(bytes, place_)) {
      if (field.is_bytes(proto::function::name)) entry.name = text(field.bytes);
      if (field.is_bytes(proto::function::input)) entry.inputs.push_back(text(field.bytes));
      if (field.is_bytes(proto::function::output)) entry.outputs.push_back(text(field.bytes));
      if (field.is_bytes(proto::function::attribute)) entry.attributes.push_back(field.bytes);
      if (field.is_bytes(proto::function::node)) entry.nodes.push_back(node(field.bytes, 0));
      if (field.is_bytes(proto::function::attribute_proto)) entry.attributes.push_back(value(field.bytes).name);
      if (field.is_bytes(proto::function::value_info)) entry.value_info.push_back(value(field.bytes));
      if (field.is_bytes(proto::function::opset_import)) entry.opsets.push_back(opset(field.bytes));
      if (field.is_bytes(proto::function::domain)) entry.domain = field.bytes;
      if (field.is_bytes(proto::function::overload)) entry.overload = text(field.bytes);
      if (field.is_bytes(proto::function::metadata_props)) entry.metadata.push_back(property(field.bytes));
    }
    return entry;
  }

  OnnxValue value(std::string_view bytes) const {
    OnnxValue entry;
    entry.message = bytes;
    for (const Field& field : Fields(bytes, place_)) {
      if (field.is_bytes(proto::value_info::name)) entry.name = text(field.bytes);
      if (field.is_bytes(proto::value_info::type)) entry.type = field.bytes;
      if (field.is_bytes(proto::value_info::metadata_props)) entry.metadata.push_back(property(field.bytes));
    }
    return entry;
  }

  OnnxProperty property(std::string_view bytes) const { return read_property(bytes, place_); }
  bool has_captured_modules() const { return has_captured_; }

 private:
  // Reserves exact capacity for the two most frequent parts of a message. Otherwise a million nodes would need up to
  // twice the memory.
  template <class First, class Second>
  void reserve(std::string_view bytes, std::uint32_t first_field, std::vector<First>& first, std::uint32_t second_field,
               std::vector<Second>& second) const {
    std::size_t first_count = 0, second_count = 0;
    for (const Field& field : Fields(bytes, place_)) {
      first_count += field.is_bytes(first_field) ? 1 : 0;
      second_count += field.is_bytes(second_field) ? 1 : 0;
      if (pages_ != nullptr) pages_->was_read(field.span.size());
    }
    first.reserve(first_count);
    second.reserve(second_count);
  }

  std::string_view text(std::string_view bytes) const { return pool_ == nullptr ? bytes : pool_->keep(bytes); }

  // Stores a text that many nodes share (operator, domain, attribute name) only once.
  std::string_view common(std::string_view bytes) const {
    if (pool_ == nullptr) return bytes;
    const auto known = common_.find(bytes);
    return known != common_.end() ? *known : *common_.insert(pool_->keep(bytes)).first;
  }

  void sparse_tensor(std::string_view bytes, auto& into) const {
    for (const Field& field : Fields(bytes, place_)) {
      const bool part = field.is_bytes(proto::sparse_tensor::values) || field.is_bytes(proto::sparse_tensor::indices);
      if (part) into.push_back(tensor(field.bytes));
    }
  }

  void attribute(std::string_view bytes, OnnxNode& node, int depth) const {
    OnnxAttribute& entry = node.attributes.emplace_back(OnnxAttribute{{}, bytes, {}, false});
    for (const Field& field : Fields(bytes, place_)) {
      if (field.is_bytes(proto::attribute::name)) entry.name = common(field.bytes);
      if (field.is_bytes(proto::attribute::ref_attr_name)) entry.reference = text(field.bytes);
      if (field.is_bytes(proto::attribute::t) || field.is_bytes(proto::attribute::tensors)) {
        node.tensors.push_back(tensor(field.bytes));
      }
      if (field.is_bytes(proto::attribute::g) || field.is_bytes(proto::attribute::graphs)) {
        entry.holds_graph = true;
        node.subgraphs.push_back(graph(field.bytes, depth + 1));
      }
      if (field.is_bytes(proto::attribute::sparse_tensor) || field.is_bytes(proto::attribute::sparse_tensors)) {
        sparse_tensor(field.bytes, node.tensors);
      }
    }
  }

  const Place& place_;
  TextPool* pool_ = nullptr;
  PageRelease* pages_ = nullptr;
  mutable FlatSet<std::string_view> common_;
  mutable bool has_captured_ = false;
};

[[noreturn]] void wrong_kind(const Place& place, const std::string& why, const std::string& remedy) {
  throw Error(Code::wrong_kind, place.file + " is not an ONNX model: " + why, remedy, place);
}

[[noreturn]] void refuse_duplicate(const std::string& what, const Place& place) {
  throw Error(Code::corrupt_file, "the file holds two " + what + ", and readers could differ in which one they use",
              "export or download the file again", place);
}

enum class Graph { read, skip };

// Keeps alive all memory that a summary has views of.
struct BackingFile {
  BackingFile(std::shared_ptr<const MappedFile> mapped, std::string rewritten = "")
      : file(std::move(mapped)), model(std::move(rewritten)), pages(file) {}

  std::shared_ptr<const MappedFile> file;
  std::string model;  // the model, if it was rewritten in memory
  PageRelease pages;
  TextPool names;
  std::deque<CapturedModules> captured;
};

OnnxSummary read(const std::shared_ptr<BackingFile>& backing, const Place& place, Graph graph = Graph::read) {
  const bool in_file = backing->model.empty();
  const std::string_view bytes = in_file ? backing->file->text() : std::string_view(backing->model);
  const PartReader reader(place, backing->names, in_file ? &backing->pages : nullptr);
  OnnxSummary model;
  model.file = {backing, backing->file.get()};
  bool has_graph = false, has_version = false;
  for (const Field& field : Fields(bytes, place)) {
    if (field.is_varint(proto::model::ir_version)) {
      if (std::exchange(has_version, true)) refuse_duplicate("IR versions", place);
      model.ir_version = static_cast<std::int64_t>(field.value);
    }
    if (field.is_bytes(proto::model::producer_name)) model.producer = field.bytes;
    if (field.is_bytes(proto::model::producer_version)) model.producer_version = field.bytes;
    if (field.is_bytes(proto::model::graph)) {
      if (std::exchange(has_graph, true)) refuse_duplicate("graphs", place);
      if (graph == Graph::read) model.graph = reader.graph(field.bytes, 0);
    }
    if (field.is_bytes(proto::model::opset_import)) model.opsets.push_back(reader.opset(field.bytes));
    if (field.is_bytes(proto::model::metadata_props)) model.metadata.push_back(reader.property(field.bytes));
    if (field.is_bytes(proto::model::functions)) model.functions.push_back(reader.function(field.bytes));
  }
  if (!has_graph || model.ir_version == 0) {
    wrong_kind(place, "it holds no " + std::string(has_graph ? "IR version" : "graph"), "name an .onnx file");
  }
  if (reader.has_captured_modules()) find_modules_of_calls(model.graph, backing->captured);
  return model;
}

Result<OnnxSummary> read_file(const ModelSource& source, Graph graph) {
  return guarded([&] {
    const Place place{.file = source.stands_for, .stage = "read"};
    const std::shared_ptr<const MappedFile> file = MappedFile::open(source.path, place.file);
    const std::string_view text = file->text();
    if (const auto other = other_kind(text)) {
      wrong_kind(place, "it is " + std::string(other->description), std::string(other->remedy));
    }
    if (!begins_as_onnx(text))
      wrong_kind(place, "it does not begin as one", "name an .onnx file, or download it again");
    return read(std::make_shared<BackingFile>(file), place, graph);
  });
}

// Fast path for an entry in the usual encoding: a short key, then its value. Ten million entries are read repeatedly.
std::optional<OnnxProperty> regular_property(std::string_view message) {
  const auto byte = [&](std::size_t at) {
    return at < message.size() ? static_cast<unsigned char>(message[at]) : 0xffU;
  };
  constexpr unsigned key_tag = proto::entry::key << 3 | 2, value_tag = proto::entry::value << 3 | 2;
  const std::size_t key_size = byte(1), tag = 2 + key_size;
  if (byte(0) != key_tag || key_size >= 0x80 || byte(tag) != value_tag) return std::nullopt;
  std::size_t value_size = byte(tag + 1), start = tag + 2;
  if (value_size >= 0x80) value_size = (value_size & 0x7f) | static_cast<std::size_t>(byte(start++)) << 7;
  if (byte(start - 1) >= 0x80 || message.size() - start != value_size) return std::nullopt;
  return OnnxProperty{message.substr(2, key_size), message.substr(start)};
}

}  // namespace

std::optional<std::string_view> find_property(const OnnxProperties& properties, std::string_view key) {
  for (const OnnxProperty& entry : properties) {
    if (entry.key == key) return entry.value;
  }
  return std::nullopt;
}

OnnxProperties NodeMetadata::list() const {
  OnnxProperties properties;
  properties.reserve(16);  // more than whence writes
  was_read(fields_.size());
  for (const Field& field : Fields(fields_, parsed_before)) {
    if (field.is_bytes(proto::node::metadata_props)) properties.push_back(read_property(field.bytes, parsed_before));
  }
  return properties;
}

std::optional<std::string_view> NodeMetadata::find(std::string_view key) const {
  was_read(fields_.size());
  for (const Field& field : Fields(fields_, parsed_before)) {
    if (!field.is_bytes(proto::node::metadata_props)) continue;
    if (const OnnxProperty entry = read_property(field.bytes, parsed_before); entry.key == key) return entry.value;
  }
  return std::nullopt;
}

Result<OnnxSummary> read_onnx_summary(const ModelSource& source) { return read_file(source, Graph::read); }
Result<OnnxSummary> read_summary_without_graph(const ModelSource& source) { return read_file(source, Graph::skip); }

OnnxSummary summary_of_bytes(std::shared_ptr<const MappedFile> file, std::string model) {
  const auto backing = std::make_shared<BackingFile>(std::move(file), std::move(model));
  return read(backing, {.file = backing->file->path(), .stage = "read"});
}

OnnxProperty read_property(std::string_view message, const Place& place) {
  if (const auto entry = regular_property(message)) return *entry;
  OnnxProperty entry;
  for (const Field& field : Fields(message, place)) {
    if (field.is_bytes(proto::entry::key)) entry.key = field.bytes;
    if (field.is_bytes(proto::entry::value)) entry.value = field.bytes;
  }
  return entry;
}

OnnxNode read_node(std::string_view message, const Place& place) { return PartReader(place).node(message, 0); }
OnnxTensor read_tensor(std::string_view message, const Place& place) { return PartReader(place).tensor(message); }
OnnxValue read_value(std::string_view message, const Place& place) { return PartReader(place).value(message); }
OnnxFunction read_function(std::string_view message, const Place& place) { return PartReader(place).function(message); }

std::vector<const OnnxNode*> all_nodes(const OnnxGraph& graph) {
  std::vector<const OnnxNode*> nodes;
  walk_nodes(graph.nodes, [&](const OnnxNode& node) { nodes.push_back(&node); });
  return nodes;
}

}  // namespace whence::onnx_file
