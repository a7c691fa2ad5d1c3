// Field numbers: onnx/onnx.proto of ONNX 1.20. Fields that no report needs are stepped over, weights among them.
#include "annotator/onnx_file/onnx_summary.h"

#include "annotator/onnx_file/other_kinds.h"
#include "annotator/onnx_file/summary_of_bytes.h"
#include "annotator/onnx_file/wire_in.h"

namespace whence::onnx_file {
namespace {

using wire::Field;
using wire::FieldReader;

// Deeper nesting than any exporter writes; bounds the recursion on a hostile file.
constexpr int max_depth = 64;

class SummaryReader {
 public:
  explicit SummaryReader(const std::string& path) : place_{.file = path, .stage = "read"} {}

  OnnxSummary read(const std::string& path) {
    const std::shared_ptr<const MappedFile> file = MappedFile::open(path, place_.file);
    refuse_other_kinds(file->text());
    return read(file, file->text());
  }

  OnnxSummary read(std::shared_ptr<const MappedFile> file, std::string_view bytes) const {
    OnnxSummary model;
    model.file = std::move(file);
    bool has_graph = false;
    for (FieldReader reader(bytes, place_); !reader.done();) {
      const Field field = reader.next();
      if (field.is_varint(1)) model.ir_version = static_cast<std::int64_t>(field.value);
      if (field.is_bytes(2)) model.producer = field.bytes;
      if (field.is_bytes(3)) model.producer_version = field.bytes;
      if (field.is_bytes(7)) {
        model.graph = graph(field.bytes, 0);
        has_graph = true;
      }
      if (field.is_bytes(8)) model.opsets.push_back(opset(field.bytes));
      if (field.is_bytes(14)) model.metadata.push_back(property(field.bytes));
      if (field.is_bytes(25)) model.functions.push_back(function(field.bytes));
    }
    if (!has_graph || model.ir_version == 0) {
      wrong_kind("it holds no " + std::string(has_graph ? "IR version" : "graph"), "name an .onnx file");
    }
    return model;
  }

 private:
  Place place_;

  [[noreturn]] void wrong_kind(const std::string& why, const std::string& remedy) const {
    throw Error(Code::wrong_kind, place_.file + " is not an ONNX model: " + why, remedy, place_);
  }

  void refuse_other_kinds(std::string_view text) const {
    if (const auto other = other_kind(text))
      wrong_kind("it is " + std::string(other->what), std::string(other->remedy));
    if (!begins_as_onnx(text)) wrong_kind("it does not begin as one", "name an .onnx file, or download it again");
  }

  OnnxProperty property(std::string_view bytes) const {
    OnnxProperty entry;
    for (FieldReader reader(bytes, place_); !reader.done();) {
      const Field field = reader.next();
      if (field.is_bytes(1)) entry.key = field.bytes;
      if (field.is_bytes(2)) entry.value = field.bytes;
    }
    return entry;
  }

  OnnxOpset opset(std::string_view bytes) const {
    OnnxOpset entry;
    for (FieldReader reader(bytes, place_); !reader.done();) {
      const Field field = reader.next();
      if (field.is_bytes(1)) entry.domain = field.bytes;
      if (field.is_varint(2)) entry.version = static_cast<std::int64_t>(field.value);
    }
    if (entry.domain == "ai.onnx") entry.domain = "";
    return entry;
  }

  OnnxTensor tensor(std::string_view bytes) const {
    OnnxTensor entry;
    entry.message = bytes;
    for (FieldReader reader(bytes, place_); !reader.done();) {
      const Field field = reader.next();
      if (field.is_varint(1)) entry.dims.push_back(static_cast<std::int64_t>(field.value));
      if (field.is_bytes(1)) {
        for (FieldReader packed(field.bytes, place_); !packed.done();) {
          entry.dims.push_back(static_cast<std::int64_t>(packed.varint()));
        }
      }
      if (field.is_varint(2)) entry.data_type = static_cast<int>(field.value);
      if (field.is_bytes(8)) entry.name = field.bytes;
      if (field.is_bytes(9)) {
        entry.raw = field.bytes;
        entry.stored_bytes = field.bytes.size();
      }
      if (field.is_bytes(13)) entry.external_data.push_back(property(field.bytes));
      if (field.is_varint(14)) entry.external = field.value == 1;
      if (field.is_bytes(16)) entry.metadata.push_back(property(field.bytes));
    }
    return entry;
  }

  void sparse_tensor(std::string_view bytes, std::vector<OnnxTensor>& into) const {
    for (FieldReader reader(bytes, place_); !reader.done();) {
      const Field field = reader.next();
      if (field.is_bytes(1) || field.is_bytes(2)) into.push_back(tensor(field.bytes));
    }
  }

  void attribute(std::string_view bytes, OnnxNode& node, int depth) const {
    OnnxAttribute& entry = node.attributes.emplace_back(OnnxAttribute{{}, bytes, {}, false});
    for (FieldReader reader(bytes, place_); !reader.done();) {
      const Field field = reader.next();
      if (field.is_bytes(1)) entry.name = field.bytes;
      if (field.is_bytes(21)) entry.reference = field.bytes;
      entry.holds_graph |= field.is_bytes(6) || field.is_bytes(11);
      if (field.is_bytes(5) || field.is_bytes(10)) node.tensors.push_back(tensor(field.bytes));
      if (field.is_bytes(6) || field.is_bytes(11)) node.subgraphs.push_back(graph(field.bytes, depth + 1));
      if (field.is_bytes(22) || field.is_bytes(23)) sparse_tensor(field.bytes, node.tensors);
    }
  }

  OnnxNode node(std::string_view bytes, int depth) const {
    OnnxNode entry;
    entry.message = bytes;
    for (FieldReader reader(bytes, place_); !reader.done();) {
      const Field field = reader.next();
      if (field.is_bytes(1)) entry.inputs.push_back(field.bytes);
      if (field.is_bytes(2)) entry.outputs.push_back(field.bytes);
      if (field.is_bytes(3)) entry.name = field.bytes;
      if (field.is_bytes(4)) entry.op_type = field.bytes;
      if (field.is_bytes(5)) attribute(field.bytes, entry, depth);
      if (field.is_bytes(6)) entry.doc_string = field.bytes;
      if (field.is_bytes(7)) entry.domain = field.bytes;
      if (field.is_bytes(8)) entry.overload = field.bytes;
      if (field.is_bytes(9)) entry.metadata.push_back(property(field.bytes));
    }
    if (entry.domain == "ai.onnx") entry.domain = "";
    return entry;
  }

  OnnxValue value(std::string_view bytes) const {
    OnnxValue entry;
    for (FieldReader reader(bytes, place_); !reader.done();) {
      const Field field = reader.next();
      if (field.is_bytes(1)) entry.name = field.bytes;
      if (field.is_bytes(2)) entry.type = field.bytes;
      if (field.is_bytes(4)) entry.metadata.push_back(property(field.bytes));
    }
    return entry;
  }

  OnnxGraph graph(std::string_view bytes, int depth) const {
    if (depth > max_depth) {
      throw Error(Code::over_limit, "graphs are nested more than " + std::to_string(max_depth) + " deep",
                  "inline the branches or loops of the model", place_);
    }
    OnnxGraph entry;
    for (FieldReader reader(bytes, place_); !reader.done();) {
      const Field field = reader.next();
      if (field.is_bytes(1)) entry.nodes.push_back(node(field.bytes, depth));
      if (field.is_bytes(2)) entry.name = field.bytes;
      if (field.is_bytes(5)) entry.initializers.push_back(tensor(field.bytes));
      if (field.is_bytes(11)) entry.inputs.push_back(value(field.bytes));
      if (field.is_bytes(12)) entry.outputs.push_back(value(field.bytes));
      if (field.is_bytes(13)) entry.value_info.push_back(value(field.bytes));
      if (field.is_bytes(15)) sparse_tensor(field.bytes, entry.initializers);
      if (field.is_bytes(16)) entry.metadata.push_back(property(field.bytes));
    }
    return entry;
  }

  OnnxFunction function(std::string_view bytes) const {
    OnnxFunction entry;
    for (FieldReader reader(bytes, place_); !reader.done();) {
      const Field field = reader.next();
      if (field.is_bytes(1)) entry.name = field.bytes;
      if (field.is_bytes(4)) entry.inputs.push_back(field.bytes);
      if (field.is_bytes(5)) entry.outputs.push_back(field.bytes);
      if (field.is_bytes(6)) entry.attributes.push_back(field.bytes);
      if (field.is_bytes(7)) entry.nodes.push_back(node(field.bytes, 0));
      if (field.is_bytes(11)) entry.attributes.push_back(property(field.bytes).key);  // its name is field 1, too
      if (field.is_bytes(12)) entry.value_info.push_back(value(field.bytes));
      if (field.is_bytes(9)) entry.opsets.push_back(opset(field.bytes));
      if (field.is_bytes(10)) entry.domain = field.bytes;
      if (field.is_bytes(13)) entry.overload = field.bytes;
      if (field.is_bytes(14)) entry.metadata.push_back(property(field.bytes));
    }
    return entry;
  }
};

void append_nodes(const std::vector<OnnxNode>& nodes, std::vector<const OnnxNode*>& into) {
  for (const OnnxNode& node : nodes) {
    into.push_back(&node);
    for (const OnnxGraph& graph : node.subgraphs) append_nodes(graph.nodes, into);
  }
}

}  // namespace

std::optional<std::string_view> find_property(const OnnxProperties& properties, std::string_view key) {
  for (const OnnxProperty& entry : properties) {
    if (entry.key == key) return entry.value;
  }
  return std::nullopt;
}

Result<OnnxSummary> read_onnx_summary(const ModelSource& source) {
  return guarded([&] { return SummaryReader(source.stands_for).read(source.path); });
}

OnnxSummary summary_of_bytes(std::shared_ptr<const MappedFile> file, std::string model) {
  struct Kept {
    std::shared_ptr<const MappedFile> file;
    std::string model;
  };
  const auto kept = std::make_shared<Kept>(Kept{std::move(file), std::move(model)});
  const MappedFile* const mapped = kept->file.get();
  return SummaryReader(mapped->path()).read({kept, mapped}, kept->model);
}

std::vector<const OnnxNode*> all_nodes(const OnnxGraph& graph) {
  std::vector<const OnnxNode*> nodes;
  append_nodes(graph.nodes, nodes);
  return nodes;
}

}  // namespace whence::onnx_file
