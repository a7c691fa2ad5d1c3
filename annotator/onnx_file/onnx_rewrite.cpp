#include "annotator/onnx_file/onnx_rewrite.h"

#include <algorithm>

#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/read_parts.h"
#include "annotator/onnx_file/tensor_bytes.h"
#include "annotator/onnx_file/wire_in.h"
#include "annotator/onnx_file/wire_out.h"
#include "annotator/origin/keys/undo.h"

namespace whence::onnx_file {

namespace keys = origin::keys;

namespace {

using wire::Field;
using wire::Fields;

constexpr std::uint64_t protobuf_limit = 2147483647;

class Walk {
 public:
  Walk(const MappedFile& file, NodeEditor& editor, const ModelEdit& model, FilePieces& pieces)
      : text_(file.text()),
        place_{.file = file.path(), .stage = "read"},
        editor_(editor),
        edit_(model),
        pieces_(pieces) {}

  bool model() {
    for (const Field& field : Fields(text_, place_)) {
      if (field.is_varint(proto::model::ir_version) && edit_.ir_version) {
        require_plain(field, wire::varint_size(field.value));
        std::string text;
        wire::append_varint_field(text, proto::model::ir_version, static_cast<std::uint64_t>(*edit_.ir_version));
        put(text);
      } else if (field.is_bytes(proto::model::graph)) {
        begin(field);
        graph(field.bytes, proto::graph::node, 0);
        if (!edit_.graph_fields.empty()) put(edit_.graph_fields);
        pieces_.end();
      } else if (field.is_bytes(proto::model::functions)) {
        begin(field);
        graph(field.bytes, proto::function::node, 0);
        pieces_.end();
      } else if (field.is_bytes(proto::model::metadata_props) && dropped(field, edit_.dropped_keys)) {
        changes_ = true;
      } else {
        pieces_.copy(field.span);
      }
    }
    for (const auto& [key, value] : edit_.added) put(entry(proto::model::metadata_props, key, value));
    return changes_;
  }

 private:
  static std::string entry(std::uint32_t field, std::string_view key, std::string_view value) {
    std::string content, text;
    wire::append_field(content, proto::entry::key, key);
    wire::append_field(content, proto::entry::value, value);
    wire::append_field(text, field, content);
    return text;
  }

  // Throws Error(corrupt_file) if strip could not restore the field exactly, because its numbers are not in their
  // shortest encoding, which every writer uses. `content`: the field's size without its tag.
  void require_plain(const Field& field, std::size_t content) const {
    const auto tag = static_cast<std::uint64_t>(field.number) << 3;
    if (field.span.size() == wire::varint_size(tag) + content) return;
    throw Error(Code::corrupt_file,
                "field " + std::to_string(field.number) + " is not in the encoding that writers use",
                "load the file with Python's onnx and save it again", place_);
  }

  void require_plain(const Field& field) const {
    require_plain(field, wire::varint_size(field.bytes.size()) + field.bytes.size());
  }

  void require_single(const Field& field, bool is_repeated) const {
    require_plain(field);
    if (!is_repeated) return;
    throw Error(Code::corrupt_file, "a node has field " + std::to_string(field.number) + " twice",
                "load the file with Python's onnx and save it again", place_);
  }

  void begin(const Field& field) {
    require_plain(field);
    pieces_.begin(field.number, field.span);
  }

  void put(std::string_view text) {
    pieces_.put(text);
    changes_ = true;
  }

  OnnxProperty property(std::string_view bytes) const { return read_property(bytes, place_); }

  bool dropped(const Field& field, const std::vector<std::string_view>& keys) const {
    return !keys.empty() && std::ranges::find(keys, property(field.bytes).key) != keys.end();
  }

  // Rewrites a graph or a local function. They differ in the number of the field with the nodes.
  void graph(std::string_view bytes, std::uint32_t node_field, int depth) {
    if (depth > max_nesting) {
      throw Error(Code::over_limit, "graphs are nested more than " + std::to_string(max_nesting) + " levels deep",
                  "inline the branches or loops of the model", place_);
    }
    for (const Field& field : Fields(bytes, place_)) {
      if (field.is_bytes(node_field)) {
        begin(field);
        const std::vector<std::string> following = node(field.bytes, depth);
        pieces_.end();
        for (const std::string& each : following) put(text_field(node_field, each));
      } else if (node_field == proto::graph::node && field.is_bytes(proto::graph::initializer)) {
        tensor(field, field.span);
      } else if (node_field == proto::graph::node && field.is_bytes(proto::graph::sparse_initializer)) {
        sparse_tensor(field, field.span);
      } else {
        pieces_.copy(field.span);
      }
    }
  }

  // Returns the new location of a tensor's data; null if the field is not a location or does not change.
  const std::string* new_location(const Field& field) const {
    if (!field.is_bytes(proto::tensor::external_data)) return nullptr;
    const OnnxProperty read = property(field.bytes);
    const auto found = edit_.locations.find(read.value);
    return read.key == "location" && found != edit_.locations.end() ? &found->second : nullptr;
  }

  bool has_new_location(std::string_view bytes) const {
    if (edit_.locations.empty()) return false;
    for (const Field& field : Fields(bytes, place_)) {
      if (new_location(field) != nullptr) return true;
    }
    return false;
  }

  // Writes new numbers into the field that holds the present ones, so that only the numbers differ.
  void edited_tensor(const Field& tensor, const TensorEdit& edit) {
    int data_type = 0;
    for (const Field& field : Fields(tensor.bytes, place_)) {
      if (field.is_varint(proto::tensor::data_type)) data_type = static_cast<int>(field.value);
    }
    bool written = false;
    pieces_.begin(tensor.number, {});
    for (const Field& field : Fields(tensor.bytes, place_)) {
      const bool is_raw = field.is_bytes(proto::tensor::raw_data);
      if (!is_raw && !is_typed_data(field.number)) {
        pieces_.copy(field.span);
      } else if (!written) {
        written = true;
        if (is_raw) {
          pieces_.begin(field.number, {});
          pieces_.put_computed(edit.size, edit.make);
          pieces_.end();
        } else {
          pieces_.put(typed_field(field.number, as_text(edit.make().in_memory().value()), data_type));
        }
      }
    }
    pieces_.end();
    changes_ = true;
  }

  void tensor(const Field& tensor, std::string_view field_span) {
    const auto edit = edit_.tensors.find(static_cast<std::uint64_t>(tensor.bytes.data() - text_.data()));
    if (edit != edit_.tensors.end()) return edited_tensor(tensor, edit->second);
    if (!has_new_location(tensor.bytes)) return pieces_.copy(field_span);
    pieces_.begin(tensor.number, {});
    for (const Field& field : Fields(tensor.bytes, place_)) {
      const std::string* const location = new_location(field);
      location != nullptr ? pieces_.put(entry(proto::tensor::external_data, "location", *location))
                          : pieces_.copy(field.span);
    }
    pieces_.end();
  }

  void sparse_tensor(const Field& sparse, std::string_view field_span) {
    if (edit_.locations.empty()) return pieces_.copy(field_span);
    pieces_.begin(sparse.number, {});
    for (const Field& field : Fields(sparse.bytes, place_)) {
      const bool part = field.is_bytes(proto::sparse_tensor::values) || field.is_bytes(proto::sparse_tensor::indices);
      part ? tensor(field, field.span) : pieces_.copy(field.span);
    }
    pieces_.end();
  }

  void read_node_fields(std::string_view bytes) {
    view_ = {};
    bool last_was_metadata = false;
    view_.offset = static_cast<std::uint64_t>(bytes.data() - text_.data());
    for (const Field& field : Fields(bytes, place_)) {
      if (field.is_bytes(proto::node::name)) {
        require_single(field, view_.has_name);
        view_.name = field.bytes;
        view_.has_name = true;
      }
      if (field.is_bytes(proto::node::op_type)) view_.op_type = field.bytes;
      if (field.is_bytes(proto::node::domain)) view_.domain = field.bytes;
      if (field.is_bytes(proto::node::doc_string)) {
        require_single(field, view_.has_doc_string);
        view_.doc_string = field.bytes;
        view_.has_doc_string = true;
      }
      const bool metadata = field.is_bytes(proto::node::metadata_props);
      if (metadata) {
        const OnnxProperty read = property(field.bytes);
        view_.regular_metadata &= view_.metadata.empty() || last_was_metadata;
        view_.regular_metadata &= entry(proto::node::metadata_props, read.key, read.value).ends_with(field.bytes);
        view_.metadata.push_back(read);
      }
      last_was_metadata = metadata;
    }
  }

  // Returns the nodes to insert after this one.
  std::vector<std::string> node(std::string_view bytes, int depth) {
    read_node_fields(bytes);
    const NodeEdit edit = editor_.edit(view_);
    bool named = false;
    std::size_t read = 0, written = 0;
    auto restored = edit.restored.begin();
    const auto restore = [&] {
      for (; restored != edit.restored.end() && restored->position == written; ++restored, ++written) {
        put(entry(proto::node::metadata_props, restored->key, restored->value));
      }
    };
    for (const Field& field : Fields(bytes, place_)) {
      if (field.is_bytes(proto::node::name) && edit.name) {
        named = true;
        put_name(*edit.name, edit.keep_empty_name);
      } else if (field.is_bytes(proto::node::doc_string) && (edit.doc_string || edit.drop_doc_string)) {
        put(edit.drop_doc_string ? "" : text_field(proto::node::doc_string, *edit.doc_string));
      } else if (field.is_bytes(proto::node::output) && edit.renamed_outputs.contains(field.bytes)) {
        put(text_field(proto::node::output, edit.renamed_outputs.at(field.bytes)));
      } else if (field.is_bytes(proto::node::attribute)) {
        attribute(field.bytes, field.span, depth);
      } else if (field.is_bytes(proto::node::metadata_props)) {
        restore();  // entries at the very beginning
        const bool is_dropped = std::ranges::find(edit.dropped_positions, read++) != edit.dropped_positions.end() ||
                                dropped(field, edit.dropped_keys);
        changes_ |= is_dropped;
        if (is_dropped) continue;
        pieces_.copy(field.span);
        ++written;
        restore();
      } else {
        pieces_.copy(field.span);
      }
    }
    if (edit.name && !named) put_name(*edit.name, edit.keep_empty_name);
    if (edit.doc_string && !view_.has_doc_string) put(text_field(proto::node::doc_string, *edit.doc_string));
    for (const auto& [key, value] : edit.added) put(entry(proto::node::metadata_props, key, value));
    return edit.following;
  }

  void put_name(const std::string& name, bool keep_empty) {
    put(name.empty() && !keep_empty ? "" : text_field(proto::node::name, name));
  }

  static std::string text_field(std::uint32_t field, std::string_view content) {
    std::string text;
    wire::append_field(text, field, content);
    return text;
  }

  void attribute(std::string_view bytes, std::string_view field_span, int depth) {
    const auto holds_graph = [](const Field& field) {
      return field.is_bytes(proto::attribute::g) || field.is_bytes(proto::attribute::graphs);
    };
    const auto holds_tensor = [](const Field& field) {
      return field.is_bytes(proto::attribute::t) || field.is_bytes(proto::attribute::tensors);
    };
    const auto holds_sparse = [](const Field& field) {
      return field.is_bytes(proto::attribute::sparse_tensor) || field.is_bytes(proto::attribute::sparse_tensors);
    };
    bool any = !edit_.locations.empty() || !edit_.tensors.empty();
    for (const Field& field : Fields(bytes, place_)) any |= holds_graph(field);
    if (!any) return pieces_.copy(field_span);
    begin(Field{.number = proto::node::attribute, .type = wire::WireType::bytes, .bytes = bytes, .span = field_span});
    for (const Field& field : Fields(bytes, place_)) {
      if (holds_graph(field)) {
        begin(field);
        graph(field.bytes, proto::graph::node, depth + 1);
        pieces_.end();
      } else if (holds_tensor(field)) {
        tensor(field, field.span);
      } else if (holds_sparse(field)) {
        sparse_tensor(field, field.span);
      } else {
        pieces_.copy(field.span);
      }
    }
    pieces_.end();
  }

  std::string_view text_;
  Place place_;
  NodeEditor& editor_;
  const ModelEdit& edit_;
  FilePieces& pieces_;
  NodeView view_;
  bool changes_ = false;
};

}  // namespace

OnnxRewrite::OnnxRewrite(const std::shared_ptr<MappedFile>& file, NodeEditor& editor, const ModelEdit& model)
    : pieces_(file) {
  changes_ = Walk(*file, editor, model, pieces_).model();
  if (pieces_.size() > protobuf_limit && file->size() <= protobuf_limit) {
    throw Error(Code::over_limit, "with its annotations the file would exceed protobuf's limit of 2 GiB",
                "export with --external-data, or choose fewer keys with --keys",
                {.file = file->path(), .stage = "annotate"});
  }
}

bool rewrite_file(const ModelSource& input, const ModelOutput& output, NodeEditor& editor, ModelEdit model,
                  const DataFiles& data_files) {
  const CarriedData data(data_files, input.stands_for, output, model.restores_data);
  model.locations = data.new_locations();
  if (!model.locations.empty()) {
    model.dropped_keys.push_back(keys::data_files);
    if (!model.restores_data && !data.former().empty()) model.added.emplace_back(keys::data_files, data.former());
  }
  const OnnxRewrite rewrite(MappedFile::open(input.path, input.stands_for), editor, model);
  if (output.path == input.path && !rewrite.changes()) return false;
  OutputFiles files;
  AtomicFile& to = files.add(output.path);
  data.add_to(files);
  rewrite.write(to);
  files.commit();
  return rewrite.changes();
}

}  // namespace whence::onnx_file
