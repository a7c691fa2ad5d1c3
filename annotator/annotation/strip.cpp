#include "annotator/annotation/strip.h"

#include <algorithm>

#include "annotator/annotation/carry_name.h"
#include "annotator/annotation/merged_entries.h"
#include "annotator/metadata/node_keys.h"
#include "annotator/onnx_file/onnx_rewrite.h"
#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/origin/keys/program.h"
#include "annotator/origin/keys/runtime.h"
#include "annotator/origin/keys/undo.h"
#include "schema/parse_number.h"

namespace whence::annotation {

namespace keys = origin::keys;
using onnx_file::find_property;
using onnx_file::ModelEdit;
using onnx_file::NodeEdit;
using onnx_file::NodeEditor;
using onnx_file::NodeView;

namespace {

bool has_item(std::string_view items, std::string_view item) {
  while (!items.empty()) {
    const std::size_t comma = std::min(items.find(','), items.size());
    if (items.substr(0, comma) == item) return true;
    items.remove_prefix(std::min(comma + 1, items.size()));
  }
  return false;
}

class StripEditor : public NodeEditor {
 public:
  // `annotated`: whence annotated the file; other files are only counted. `stamps`: annotate also wrote stamps.
  // `placed`: `whence place` wrote the nodes' devices.
  StripEditor(StripReport& report, bool annotated, bool stamps, bool placed)
      : report_(report), annotated_(annotated), stamps_(stamps), placed_(placed) {}

  NodeEdit edit(const NodeView& node) override {
    ++report_.nodes;
    NodeEdit edit;
    if (placed_) drop(node, keys::layer_annotation, "", edit);
    if (annotated_) remove_annotation(node, edit);
    if (!edit.dropped_keys.empty()) ++report_.stripped;
    return edit;
  }

 private:
  void remove_annotation(const NodeView& node, NodeEdit& edit) const {
    const std::string_view kept = find_property(node.metadata, keys::kept).value_or("");
    for (const std::string_view key : metadata::annotation_keys()) drop(node, key, kept, edit);
    drop(node, keys::kept, "", edit);
    drop(node, keys::original_name, "", edit);
    drop(node, keys::merged, "", edit);
    drop(node, keys::carry, "", edit);
    if (find_property(node.metadata, keys::carry)) drop_token(node, edit);
    if (stamps_ && !has_stamped_origin(node)) drop(node, keys::op, kept, edit);
    if (const auto merged = find_property(node.metadata, keys::merged)) edit.restored = parse_merged_entries(*merged);
    if (const auto name = find_property(node.metadata, keys::original_name)) edit.name = std::string(*name);
    edit.keep_empty_name = has_item(kept, "name");
  }

  static bool has_stamped_origin(const NodeView& node) {
    const auto rule = find_property(node.metadata, keys::rule);
    return rule == "stamp" || rule == "shared";
  }

  static void drop(const NodeView& node, std::string_view key, std::string_view kept, NodeEdit& edit) {
    if (find_property(node.metadata, key) && !has_item(kept, key)) edit.dropped_keys.push_back(key);
  }

  StripReport& report_;
  bool annotated_, stamps_, placed_;
};

ModelEdit model_edit(const onnx_file::OnnxSummary& model, const Place& place) {
  ModelEdit edit;
  edit.dropped_keys = {keys::annotated,           keys::placed,    keys::matched, keys::stamped,
                       keys::original_ir_version, keys::data_files};
  edit.restores_data = true;
  if (const auto text = find_property(model.metadata, keys::original_ir_version)) {
    edit.ir_version = parse_number<std::int64_t>(*text);
    if (!edit.ir_version) {
      throw Error(Code::corrupt_file,
                  std::string(keys::original_ir_version) + " is '" + std::string(*text) + "', not a number",
                  "use the file as annotate wrote it", place);
    }
  }
  return edit;
}

}  // namespace

Result<StripReport> strip_file(const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output) {
  return guarded([&] {
    ModelEdit edit;
    onnx_file::DataFiles data_files;
    bool annotated = false, stamps = false, placed = false;
    {
      const auto model = value_of(onnx_file::read_onnx_summary(input));
      annotated = find_property(model.metadata, keys::annotated).has_value();
      stamps = find_property(model.metadata, keys::matched).has_value();
      placed = find_property(model.metadata, keys::placed).has_value();
      if (annotated || placed) edit = model_edit(model, {.file = input.stands_for, .stage = "strip"});
      data_files = onnx_file::data_files_of(model);
    }
    StripReport report;
    StripEditor editor(report, annotated, stamps, placed);
    report.changed = onnx_file::rewrite_file(input, output, editor, std::move(edit), data_files);
    return report;
  });
}

}  // namespace whence::annotation
