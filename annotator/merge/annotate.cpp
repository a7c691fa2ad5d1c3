#include "annotator/merge/annotate.h"

#include <algorithm>

#include "annotator/export/names.h"
#include "annotator/merge/external_data.h"
#include "annotator/merge/keys.h"
#include "annotator/merge/node_keys.h"
#include "annotator/merge/onnx_rewrite.h"
#include "annotator/merge/stamp.h"
#include "annotator/write/unique_names.h"

namespace whence {

namespace {

constexpr std::int64_t oldest_ir_with_node_metadata = 10;

// The keys to write, in the order of annotation_keys().
std::vector<std::string_view> wanted_keys(const AnnotateOptions& options) {
  if (options.keys.empty()) return annotation_keys();
  std::vector<std::string_view> wanted;
  for (const std::string& name : options.keys) {
    const auto key = find_annotation_key(name);
    if (!key) {
      std::string known;
      for (const std::string_view each : annotation_keys()) known += (known.empty() ? "" : ", ") + std::string(each);
      throw Error(Code::usage, "no such metadata key: " + name, "choose among " + known, {.stage = "command line"});
    }
    wanted.push_back(*key);
  }
  std::vector<std::string_view> ordered;
  for (const std::string_view key : annotation_keys()) {
    if (std::ranges::find(wanted, key) != wanted.end()) ordered.push_back(key);
  }
  return ordered;
}

class AnnotateEditor : public NodeEditor {
 public:
  AnnotateEditor(const NodeKeys& keys, const Program& program, const Place& place, bool names, bool first_time,
                 AnnotateReport& report)
      : keys_(keys), program_(program), place_(place), names_(names), first_time_(first_time), report_(report) {
    report_ = {};
  }

  NodeEdit edit(const NodeView& node) override {
    ++report_.nodes;
    const auto stamp = find_property(node.metadata, keys::op);
    if (!stamp) {
      ++report_.unstamped;
      return {};
    }
    const NodeOrigin origin = read_stamp(node, *stamp);
    ++(keys_.exact(origin) ? report_.exact : report_.ancestor);
    NodeEdit edit;
    if (names_) rename(node, origin, edit);
    for (auto& entry : keys_.of(origin)) {
      if (!find_property(node.metadata, entry.first)) edit.added.push_back(std::move(entry));
    }
    if (first_time_) keep_what_was_there(node, edit);
    return edit;
  }

 private:
  NodeOrigin read_stamp(const NodeView& node, std::string_view stamp) const {
    auto origin = parse_stamp(stamp);
    if (origin && keys_.knows(*origin)) return std::move(*origin);
    Place place = place_;
    place.node = node.name;
    throw Error(Code::sidecar_mismatch, "the stamp '" + std::string(stamp) + "' names no operation of the sidecar",
                "export the model again, with --sidecar-out", place);
  }

  void rename(const NodeView& node, const NodeOrigin& origin, NodeEdit& edit) {
    std::string wanted = unique_.claim(path(keys_.scope(origin)) + "/" + std::string(node.op_type));
    if (wanted == node.name) return;
    if (!find_property(node.metadata, keys::original_name)) {
      edit.added.emplace_back(keys::original_name, std::string(node.name));
    }
    edit.name = std::move(wanted);
    ++report_.renamed;
  }

  void keep_what_was_there(const NodeView& node, NodeEdit& edit) const {
    std::string kept;
    for (const std::string_view key : annotation_keys()) {
      if (!find_property(node.metadata, key)) continue;
      if (!kept.empty()) kept += ",";
      kept += key;
    }
    if (!kept.empty()) edit.added.emplace_back(keys::kept, std::move(kept));
  }

  // Nodes of one scope usually follow each other.
  const std::string& path(ScopeId scope) {
    if (scope != last_scope_) {
      last_scope_ = scope;
      last_path_ = scope_path(program_, scope);
    }
    return last_path_;
  }

  const NodeKeys& keys_;
  const Program& program_;
  const Place& place_;
  bool names_, first_time_;
  AnnotateReport& report_;
  UniqueNames unique_;
  ScopeId last_scope_ = none_id;
  std::string last_path_;
};

void require_same_program(const OnnxSummary& model, const Sidecar& sidecar, const Place& place) {
  const auto stamped = find_property(model.metadata, keys::program);
  if (!stamped) {
    throw Error(Code::unsupported_feature,
                "the file was not exported by whence; annotating foreign files is not supported yet",
                "export the model with `whence export`", place);
  }
  const std::string recorded = program_digest(sidecar.program);
  if (*stamped == recorded) return;
  throw Error(
      Code::sidecar_mismatch,
      "the file was exported from program " + std::string(*stamped) + ", the sidecar describes program " + recorded,
      "give the sidecar of the same export, or export again with --sidecar-out", place);
}

ModelEdit model_edit(const OnnxSummary& model) {
  ModelEdit edit;
  if (!find_property(model.metadata, keys::annotated)) edit.added.emplace_back(keys::annotated, WHENCE_VERSION);
  if (model.ir_version < oldest_ir_with_node_metadata) {
    edit.ir_version = oldest_ir_with_node_metadata;
    edit.added.emplace_back(keys::original_ir_version, std::to_string(model.ir_version));
  }
  return edit;
}

Diagnostic raised_ir_version(std::int64_t before, const Place& place) {
  return {Code::unsupported_feature,
          Severity::note,
          "the IR version was raised from " + std::to_string(before) + " to 10: node metadata needs it",
          place,
          "",
          1,
          {}};
}

}  // namespace

Result<AnnotateReport> annotate_file(const std::string& input, const Sidecar& sidecar, const std::string& output,
                                     const AnnotateOptions& options) {
  const Place place{.file = input, .stage = "annotate"};
  Diagnostics notes;
  auto result = guarded([&] {
    const NodeKeys keys(sidecar.program, wanted_keys(options));
    ModelEdit edit;
    std::set<std::string> data_files;
    bool first_time = true;
    {
      auto model = read_onnx_summary(input);
      if (!model) throw Error(model.diagnostics());
      require_same_program(*model, sidecar, place);
      edit = model_edit(*model);
      data_files = external_locations(*model);
      first_time = !find_property(model->metadata, keys::annotated);
      if (edit.ir_version) notes.push_back(raised_ir_version(model->ir_version, place));
    }
    AnnotateReport report;
    const auto make_editor = [&] {
      return std::make_unique<AnnotateEditor>(keys, sidecar.program, place, options.names, first_time, report);
    };
    report.changed = rewrite_file(input, output, make_editor, std::move(edit), data_files);
    return report;
  });
  return result ? Result<AnnotateReport>(*result, std::move(notes)) : result;
}

}  // namespace whence
