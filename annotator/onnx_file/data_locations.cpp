#include "annotator/onnx_file/data_locations.h"

#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/other_kinds.h"
#include "annotator/onnx_file/read_parts.h"
#include "annotator/onnx_file/wire_in.h"
#include "schema/files/files.h"

namespace whence::onnx_file {

namespace {

using wire::Field;
using wire::Fields;

class LocationReader {
 public:
  explicit LocationReader(const Place& place) : place_(place) {}

  void model(std::string_view message) {
    for (const Field& field : Fields(message, place_)) {
      if (field.is_bytes(proto::model::graph)) graph(field.bytes, 0);
      if (field.is_bytes(proto::model::functions)) nodes(field.bytes, proto::function::node, 0);
    }
  }

  std::set<std::string> found;

 private:
  void graph(std::string_view message, int depth) {
    if (depth > max_nesting) return;
    for (const Field& field : Fields(message, place_)) {
      if (field.is_bytes(proto::graph::node)) node(field.bytes, depth);
      if (field.is_bytes(proto::graph::initializer)) tensor(field.bytes);
      if (field.is_bytes(proto::graph::sparse_initializer)) sparse_tensor(field.bytes);
    }
  }

  void nodes(std::string_view message, std::uint32_t node_field, int depth) {
    for (const Field& field : Fields(message, place_)) {
      if (field.is_bytes(node_field)) node(field.bytes, depth);
    }
  }

  void node(std::string_view message, int depth) {
    for (const Field& field : Fields(message, place_)) {
      if (field.is_bytes(proto::node::attribute)) attribute(field.bytes, depth);
    }
  }

  void attribute(std::string_view message, int depth) {
    for (const Field& field : Fields(message, place_)) {
      if (field.is_bytes(proto::attribute::t) || field.is_bytes(proto::attribute::tensors)) tensor(field.bytes);
      if (field.is_bytes(proto::attribute::g) || field.is_bytes(proto::attribute::graphs)) {
        graph(field.bytes, depth + 1);
      }
      if (field.is_bytes(proto::attribute::sparse_tensor) || field.is_bytes(proto::attribute::sparse_tensors)) {
        sparse_tensor(field.bytes);
      }
    }
  }

  void sparse_tensor(std::string_view message) {
    for (const Field& field : Fields(message, place_)) {
      const bool part = field.is_bytes(proto::sparse_tensor::values) || field.is_bytes(proto::sparse_tensor::indices);
      if (part) tensor(field.bytes);
    }
  }

  void tensor(std::string_view message) {
    std::string_view location;
    bool external = false;
    for (const Field& field : Fields(message, place_)) {
      if (field.is_varint(proto::tensor::data_location)) external = field.value == 1;
      if (!field.is_bytes(proto::tensor::external_data)) continue;
      const OnnxProperty entry = read_property(field.bytes, place_);
      if (entry.key == "location" && location.empty()) location = entry.value;
    }
    if (external && location != last_) found.emplace(last_ = location);
  }

  const Place& place_;
  std::string_view last_;  // consecutive tensors usually share a file
};

}  // namespace

std::set<std::string> data_locations_in(const std::string& model) {
  const Place place{.file = model, .stage = "read"};
  auto found = guarded([&] {
    const std::shared_ptr<const MappedFile> file = MappedFile::open(model, model);
    LocationReader locations(place);
    if (!other_kind(file->text()) && begins_as_onnx(file->text())) locations.model(file->text());
    return std::move(locations.found);
  });
  return found ? std::move(*found) : std::set<std::string>();
}

}  // namespace whence::onnx_file
