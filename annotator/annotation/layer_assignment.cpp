#include "annotator/annotation/layer_assignment.h"

#include <algorithm>
#include <unordered_map>

#include "annotator/annotation/model_edit.h"
#include "annotator/onnx_file/onnx_rewrite.h"
#include "annotator/origin/keys/runtime.h"
#include "annotator/origin/keys/undo.h"

namespace whence::annotation {

namespace keys = origin::keys;
using onnx_file::find_property;
using onnx_file::ModelEdit;
using onnx_file::NodeEdit;
using onnx_file::NodeView;
using onnx_file::OnnxNode;
using onnx_file::OnnxSummary;

namespace {

using DeviceByOffset = std::unordered_map<std::uint64_t, std::string_view>;  // an empty name: no device

// Writes the devices. Nodes of functions have none and stay unchanged.
class DeviceEditor : public onnx_file::NodeEditor {
 public:
  explicit DeviceEditor(const DeviceByOffset& devices) : devices_(devices) {}

  NodeEdit edit(const NodeView& node) override {
    NodeEdit edit;
    const auto device = devices_.find(node.offset);
    if (device == devices_.end()) return edit;
    const auto present = find_property(node.metadata, keys::layer_annotation);
    if (present.value_or("") == device->second) return edit;
    if (present) edit.dropped_keys.push_back(keys::layer_annotation);
    if (!device->second.empty()) edit.added.emplace_back(keys::layer_annotation, std::string(device->second));
    return edit;
  }

 private:
  const DeviceByOffset& devices_;
};

ModelEdit placement_of_model(const OnnxSummary& model, const std::string& settings) {
  ModelEdit edit;
  const auto before = find_property(model.metadata, keys::placed);
  if (before != settings) {
    if (before) edit.dropped_keys.push_back(keys::placed);
    edit.added.emplace_back(keys::placed, settings);
  }
  raise_ir_version(model, edit);
  return edit;
}

}  // namespace

bool write_layer_assignment(const OnnxSummary& model, const std::vector<std::string>& devices,
                            const std::string& left_out, const std::string& settings,
                            const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output,
                            Diagnostics& notes) {
  const Place place{.file = input.stands_for, .stage = "place"};
  const std::vector<const OnnxNode*> nodes = onnx_file::all_nodes(model.graph);
  const bool written_by_whence = find_property(model.metadata, keys::placed).has_value();
  DeviceByOffset by_offset;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!written_by_whence && nodes[i]->metadata.find(keys::layer_annotation)) {
      throw Error(
          Code::usage, "another tool assigned layers: '" + std::string(nodes[i]->name) + "' has the entry layer_ann",
          "run `whence place` on the file as it was before that tool, or omit --rule to show its assignment", place);
    }
    const auto offset = static_cast<std::uint64_t>(nodes[i]->message.data() - model.file->text().data());
    by_offset.emplace(offset, devices[i] == left_out ? std::string_view() : std::string_view(devices[i]));
  }
  if (model.ir_version < oldest_ir_with_node_metadata) notes.push_back(raised_ir_version(model.ir_version, place));
  DeviceEditor editor(by_offset);
  return onnx_file::rewrite_file(input, output, editor, placement_of_model(model, settings),
                                 onnx_file::data_files_of(model));
}

}  // namespace whence::annotation
