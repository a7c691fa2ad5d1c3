#include "annotator/annotation/model_edit.h"

#include "annotator/origin/keys/undo.h"

namespace whence::annotation {

namespace keys = origin::keys;

onnx_file::ModelEdit annotation_of_model(const onnx_file::OnnxSummary& model) {
  onnx_file::ModelEdit edit;
  if (!onnx_file::find_property(model.metadata, keys::annotated))
    edit.added.emplace_back(keys::annotated, WHENCE_VERSION);
  raise_ir_version(model, edit);
  return edit;
}

void raise_ir_version(const onnx_file::OnnxSummary& model, onnx_file::ModelEdit& edit) {
  if (model.ir_version >= oldest_ir_with_node_metadata) return;
  edit.ir_version = oldest_ir_with_node_metadata;
  edit.added.emplace_back(keys::original_ir_version, std::to_string(model.ir_version));
}

Diagnostic nothing_left_to_annotate(const std::string& source_name, const Place& place) {
  Diagnostic diagnostic =
      note(Code::sidecar_mismatch,
           "every node is already annotated from another source and stays unchanged: " + source_name + " adds nothing",
           place);
  diagnostic.remedy = "to annotate it from " + source_name + ", first run `whence strip " + place.file + " -o ...`";
  return diagnostic;
}

Diagnostic raised_ir_version(std::int64_t before, const Place& place) {
  return note(Code::unsupported_feature,
              "the IR version was raised from " + std::to_string(before) + " to " +
                  std::to_string(oldest_ir_with_node_metadata) + ": older versions have no node metadata",
              place);
}

}  // namespace whence::annotation
