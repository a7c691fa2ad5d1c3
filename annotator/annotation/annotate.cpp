#include "annotator/annotation/annotate.h"

#include <algorithm>
#include <functional>

#include "annotator/annotation/annotate_foreign.h"
#include "annotator/annotation/carry_name.h"
#include "annotator/annotation/changed_nodes.h"
#include "annotator/annotation/model_edit.h"
#include "annotator/annotation/text_keys.h"
#include "annotator/annotation/value_pairs.h"
#include "annotator/exporter/export.h"
#include "annotator/match/file_structure.h"
#include "annotator/match/match.h"
#include "annotator/metadata/attribution.h"
#include "annotator/metadata/node_keys.h"
#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/onnx_rewrite.h"
#include "annotator/onnx_file/wire_in.h"
#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/origin/keys/program.h"
#include "annotator/origin/keys/undo.h"
#include "annotator/origin/scope_path.h"
#include "annotator/origin/stamp.h"
#include "annotator/text/unique_names.h"
#include "schema/files/files.h"
#include "schema/freed_memory.h"

namespace whence::annotation {

using origin::NodeOrigin;
namespace keys = origin::keys;
using exporter::default_opset;
using match::make_reference;
using match::make_reference_of_names;
using match::match_model;
using match::MatchReport;
using match::NodeMatch;
using match::nodes_with_functions;
using metadata::annotation_keys;
using metadata::NodeKeys;
using onnx_file::find_property;
using onnx_file::ModelOutput;
using onnx_file::ModelSource;
using onnx_file::NodeEdit;
using onnx_file::NodeView;
using onnx_file::OnnxNode;
using onnx_file::OnnxSummary;
using onnx_file::read_onnx_summary;

namespace {

// Returns the keys to write, in the order of annotation_keys().
std::vector<std::string_view> keys_to_write(const AnnotateOptions& options) {
  if (options.keys.empty()) return annotation_keys();
  std::vector<std::string_view> requested_keys;
  for (const std::string& name : options.keys) {
    const auto key = metadata::find_annotation_key(name);
    if (!key) {
      std::string known;
      for (const std::string_view each : annotation_keys()) known += (known.empty() ? "" : ", ") + std::string(each);
      throw Error(Code::usage, "no such metadata key: " + name, "choose from " + known, {.stage = "command line"});
    }
    requested_keys.push_back(*key);
  }
  std::vector<std::string_view> ordered;
  for (const std::string_view key : annotation_keys()) {
    if (std::ranges::find(requested_keys, key) != requested_keys.end()) ordered.push_back(key);
  }
  return ordered;
}

class AnnotateEditor : public onnx_file::NodeEditor {
 public:
  AnnotateEditor(const NodeKeys& keys, const Place& place, const AnnotateOptions& options, bool first_time,
                 AnnotateReport& report)
      : keys_(keys), place_(place), options_(options), first_time_(first_time), report_(report) {}

  NodeEdit edit(const NodeView& node) override {
    const NodeOrigin origin = read_stamp(node, find_property(node.metadata, keys::op).value_or(""));
    NodeEdit edit;
    if (options_.names) rename(node, origin, edit);
    const auto confidence = keys_.confidence_of_export(origin, node.domain);
    std::ranges::move(keys_.of_export(origin, node.domain, node.op_type, node.metadata),
                      std::back_inserter(edit.added));
    if (first_time_) list_kept_keys(node, "", edit);
    if (options_.carry) carry_name(node, confidence, edit);
    report_.nodes.add(confidence_after(node, edit, confidence));
    return edit;
  }

 private:
  NodeOrigin read_stamp(const NodeView& node, std::string_view stamp) const {
    auto origin = origin::parse_stamp(stamp);
    if (origin && keys_.has_operations(*origin)) return std::move(*origin);
    Place place = place_;
    place.node = node.name;
    throw Error(Code::sidecar_mismatch, "the stamp '" + std::string(stamp) + "' names no operation of the sidecar",
                "export the model again, with --sidecar-out", place);
  }

  void rename(const NodeView& node, const NodeOrigin& origin, NodeEdit& edit) {
    std::string new_name = unique_.claim(keys_.path(origin) + "/" + std::string(node.op_type));
    if (new_name == node.name) return;
    if (!find_property(node.metadata, keys::original_name)) {
      edit.added.emplace_back(keys::original_name, std::string(node.name));
    }
    edit.name = std::move(new_name);
    ++report_.renamed;
  }

  const NodeKeys& keys_;
  const Place& place_;
  const AnnotateOptions& options_;
  bool first_time_;
  AnnotateReport& report_;
  text::UniqueNames unique_;
};

// Returns true if whence exported the file from the program with this digest and every node has its stamp, so that no
// tool added nodes.
bool all_stamped(const OnnxSummary& model, const std::string& digest) {
  if (find_property(model.metadata, keys::program) != digest) return false;
  const auto nodes = nodes_with_functions(model);
  return std::ranges::all_of(nodes,
                             [](const OnnxNode* node) { return find_property(node->metadata, keys::op).has_value(); });
}

class ProgramKeys : public KeySource {
 public:
  ProgramKeys(const NodeKeys& keys, const Program& program, std::string digest)
      : keys_(keys), program_(program), digest_(std::move(digest)) {}

  std::vector<std::pair<std::string_view, std::string>> keys_of(const NodeMatch& match,
                                                                std::string_view op_type) const override {
    metadata::NodePlace place;
    place.origin = origin_of(match).value_or(NodeOrigin{});
    place.scope = scope_of(match);
    place.confidence = match.confidence;
    place.rule = match::name_of(match.rule);
    place.op_type = op_type;
    return keys_.of(place);
  }
  std::string path_of(const NodeMatch& match) const override { return origin::scope_path(program_, scope_of(match)); }
  bool is_requested(std::string_view key) const override { return keys_.is_requested(key); }
  std::string program() const override { return digest_; }
  std::optional<NodeOrigin> origin_of(const NodeMatch& match) const override {
    if (match.units.empty() || !has_certain_operations(match)) return std::nullopt;
    NodeOrigin origin;
    for (const match::UnitIndex unit : match.units) origin.ops.push_back(unit.number());
    if (match.units.size() > 1) origin.kind = match.shared ? origin::OriginKind::shared : origin::OriginKind::fused;
    return origin;
  }

 private:
  // The reference has the scopes of the program in the same order.
  static ScopeId scope_of(const NodeMatch& match) { return ScopeId(match.scope.number()); }

  // Returns false for confidence `ancestor`, where only an enclosing module is known, unless the recording itself has
  // only that confidence for the operations.
  bool has_certain_operations(const NodeMatch& match) const {
    return match.confidence != origin::Confidence::ancestor ||
           std::ranges::all_of(match.units, [&](match::UnitIndex unit) {
             return keys_.confidence({.ops = {unit.number()}}) == origin::Confidence::ancestor;
           });
  }

  const NodeKeys& keys_;
  const Program& program_;
  std::string digest_;
};

int opset_of(const OnnxSummary& model) {
  for (const onnx_file::OnnxOpset& opset : model.opsets) {
    if (opset.domain.empty()) return static_cast<int>(opset.version);
  }
  return default_opset;
}

MatchReport empty_report(const OnnxSummary& model) {
  MatchReport found;
  found.nodes.resize(nodes_with_functions(model).size());
  found.evidence.resize(found.nodes.size());
  return found;
}

std::string weight_counts_text(const match::WeightCounts& weights) {
  if (weights.compared == 0) return "";
  return "of " + std::to_string(weights.compared) + " matrices whose elements can be compared, " +
         std::to_string(weights.recognised) + " hold the elements of a parameter; ";
}

// Limits confidence to `inferred` if the weights differ from the reference's: then the evidence is only the structure,
// which other models share.
void lower_confidence(MatchReport& found, const AnnotateOptions& options) {
  if (!found.fit.with_other_weights() || options.is_made_from_it) return;
  for (NodeMatch& match : found.nodes) match.confidence = std::max(match.confidence, origin::Confidence::inferred);
}

// Checks the fit before anything is written. `source_name`: what the file is compared with, "the sidecar".
void require_fit(const match::ModelFit& fit, const AnnotateOptions& options, const Place& place,
                 const std::string& source_name) {
  const match::ParameterCounts& counts = fit.parameters;
  const std::string parameters = std::to_string(counts.by_bytes) + " of " + std::to_string(counts.all) +
                                 " parameters match by digest, " + std::to_string(counts.by_name) + " more by name, " +
                                 std::to_string(counts.by_sketch) + " more by some of their elements, " +
                                 std::to_string(counts.by_shape) + " more by shape";
  if (fit.of_another_model()) {
    const std::string places =
        fit.nodes == 0
            ? "none of its operations corresponds to any of the " + std::to_string(fit.computing) + " in the file"
            : parameters + ", and " + std::to_string(fit.placed) + " of " + std::to_string(fit.nodes) +
                  " nodes that read matrices match an operation";
    throw Error(Code::sidecar_mismatch, source_name + " describes another model: " + places,
                "pass the one of the model that the file was made from", place);
  }
  if (!fit.with_other_weights() || options.allow_different_weights || options.is_made_from_it) return;
  throw Error(
      Code::sidecar_mismatch,
      "the file's weights differ from those of " + source_name + ": " + weight_counts_text(fit.weights) + parameters,
      "pass the one with these weights, or --allow-different-weights to match by structure", place);
}

// Requires more evidence than names, which all models of an architecture share.
void require_weights(const match::ModelFit& fit, const AnnotateOptions& options, const Place& place) {
  constexpr std::int64_t chance_ratio = 10;  // up to one in this many parameters is equal after any training
  const match::ParameterCounts& counts = fit.parameters;
  const std::int64_t by_content = counts.all_by_content;
  const std::int64_t only_by_name = counts.by_bytes + counts.by_name + counts.by_sketch - by_content;
  const bool enough =
      by_content > 0 && (by_content * chance_ratio >= counts.all || only_by_name <= by_content * chance_ratio);
  if (enough && !fit.weights.are_others() && !fit.weights.none_recognised()) return;
  if (counts.by_name == 0) {
    throw Error(Code::sidecar_mismatch,
                "the file holds none of the " + std::to_string(counts.all) + " parameters of the checkpoint",
                "pass the weights that the file was made with", place);
  }
  if (options.allow_different_weights) return;
  throw Error(Code::sidecar_mismatch,
              "the file has the checkpoint's names but other weights: " + weight_counts_text(fit.weights) + "of " +
                  std::to_string(counts.all) + " parameters " + std::to_string(by_content) +
                  " were found by their elements, " + std::to_string(only_by_name) + " more by name",
              "pass the weights that the file was made with, or --allow-different-weights to match by names", place);
}

// Refuses to annotate a file again from another recording. A file may be exported from one recording of a model and
// annotated from another, for example a trace and the frozen trace, but only one recording may annotate it.
void require_no_other_annotation(const OnnxSummary& model, const Program& program, const std::string& recorded,
                                 const AnnotateOptions& options, const Place& place) {
  const auto exported = find_property(model.metadata, keys::program);
  if (!exported || !find_property(model.metadata, keys::annotated)) return;
  const std::string_view by = find_property(model.metadata, keys::matched).value_or(*exported);
  if (by == recorded) return;
  require_fit(match_model(model, make_reference(program, opset_of(model))).fit, options, place, "the sidecar");
  throw Error(Code::sidecar_mismatch,
              "the file is already annotated from another sidecar of the model, of program " + std::string(by) +
                  "; this sidecar is of program " + recorded,
              "pass that sidecar, or first remove its annotation: `whence strip " + place.file + " -o ...`", place);
}

// Annotates without a sidecar; shared by annotate_from_file and annotate_alone.
AnnotateReport annotate_by(const ModelSource& input, const ModelOutput& output, const AnnotateOptions& options,
                           const std::string& digest, const std::function<match::Reference(const OnnxSummary&)>& make,
                           const std::vector<const OnnxNode*>& before, const std::string& program, Diagnostics& notes) {
  const Place place{.file = input.stands_for, .stage = "annotate"};
  auto model = read_onnx_summary(input);
  if (!model) throw Error(model.diagnostics());
  if (model->ir_version < oldest_ir_with_node_metadata) notes.push_back(raised_ir_version(model->ir_version, place));
  match::Reference reference = make(*model);
  const TextKeys source(reference, before, program, keys_to_write(options));
  const bool done = fully_annotated(*model, digest);
  MatchReport found =
      done ? empty_report(*model) : match_model(*model, reference, changed_nodes(nodes_with_functions(*model), before));
  if (!done) {
    reference.of_weights ? require_weights(found.fit, options, place)
                         : require_fit(found.fit, options, place, "the previous file");
    lower_confidence(found, options);
  }
  reference.keep_units_and_scopes();
  release_freed_memory();
  const bool adds = std::ranges::find(found.stale, true) != found.stale.end();
  if (!done && !adds && digest != keys::own_names && annotated_at_all_nodes(*model)) {
    notes.push_back(nothing_left_to_annotate(reference.of_weights ? "the checkpoint" : "the previous file", place));
  }
  return write_matches(*model, found, source, digest, input, output, options);
}

}  // namespace

void require_origins(const OnnxSummary& model, const std::string& file) {
  const auto nodes = nodes_with_functions(model);
  const auto states_module = [](const OnnxNode* node) { return match::module_of(*node).has_value(); };
  if (std::ranges::any_of(nodes, states_module)) return;
  throw Error(Code::wrong_kind, "no node of " + file + " states its module",
              "annotate that file first: `whence annotate " + file + " --sidecar ...`",
              {.file = file, .stage = "annotate"});
}

Result<AnnotateReport> annotate_from_file(const ModelSource& input, const ModelSource& before,
                                          const ModelOutput& output, const AnnotateOptions& options) {
  Diagnostics notes;
  auto result = guarded([&] {
    auto known = read_onnx_summary(before);
    if (!known) throw Error(known.diagnostics());
    const auto nodes = nodes_with_functions(*known);
    require_origins(*known, before.stands_for);
    return annotate_by(
        input, output, options, std::string(keys::file_before) + digest_of_file(before.path),
        [&](const OnnxSummary&) { return make_reference(*known); }, nodes,
        std::string(metadata::stamped_program(*known).value_or("")), notes);
  });
  return result ? Result<AnnotateReport>(*result, std::move(notes)) : result;
}

Result<AnnotateReport> annotate_by_weights(const ModelSource& input, const std::vector<Parameter>& parameters,
                                           const Place& place, const ModelOutput& output,
                                           const AnnotateOptions& options) {
  Diagnostics notes;
  auto result = guarded([&] {
    std::string text;
    for (const Parameter& each : parameters) text += each.name + " " + each.digests.content + "\n";
    if (parameters.empty())
      throw Error(Code::wrong_kind, "the file contains no parameters", "pass a file with weights", place);
    return annotate_by(
        input, output, options, std::string(keys::weights) + digest_of(text.data(), text.size()),
        [&](const OnnxSummary& model) { return match::make_reference_of_weights(model, parameters); }, {}, "", notes);
  });
  return result ? Result<AnnotateReport>(*result, std::move(notes)) : result;
}

Result<AnnotateReport> annotate_alone(const ModelSource& input, const ModelOutput& output,
                                      const AnnotateOptions& options) {
  Diagnostics notes;
  auto result = guarded([&] {
    return annotate_by(input, output, options, std::string(keys::own_names), make_reference_of_names, {}, "", notes);
  });
  return result ? Result<AnnotateReport>(*result, std::move(notes)) : result;
}

// Returns true if an input of the file has a dynamic axis.
bool has_dynamic_input(const OnnxSummary& model, const Place& place) {
  namespace type = onnx_file::proto::type;
  const auto each_message = [&](std::string_view message, std::uint32_t number, const auto& see) {
    for (const onnx_file::wire::Field& field : onnx_file::wire::Fields(message, place)) {
      if (field.is_bytes(number)) see(field.bytes);
    }
  };
  bool dynamic = false;
  for (const onnx_file::OnnxValue& input : model.graph.inputs) {
    each_message(input.type, type::tensor, [&](std::string_view tensor) {
      each_message(tensor, type::shape, [&](std::string_view shape) {
        each_message(shape, type::dim, [&](std::string_view dim) {
          bool known = false;
          for (const auto& field : onnx_file::wire::Fields(dim, place)) known |= field.is_varint(type::dim_value);
          dynamic |= !known;
        });
      });
    });
  }
  return dynamic;
}

bool has_dynamic_input(const Program& program) {
  return std::ranges::any_of(program.inputs, [&](const ProgramInput& input) {
    const auto& dims = program.values[input.value].type.dims;
    return dims && !std::ranges::all_of(*dims, &Dim::is_static);
  });
}

// Adds a note if the recording has fixed sizes but the file has dynamic ones. Such a recording computed sizes, masks
// and position tables once, so it has no operations for the nodes that compute them at each run.
void note_fixed_recording(const OnnxSummary& model, const Program& program, const AnnotateReport& report,
                          const Place& place, Diagnostics& notes) {
  const std::int64_t uncertain =
      report.nodes[origin::Confidence::ancestor] + report.nodes[origin::Confidence::unattributed];
  if (uncertain == 0 || has_dynamic_input(program) || !has_dynamic_input(model, place)) return;
  Diagnostic diagnostic =
      note(Code::sidecar_mismatch,
           "the recording has fixed sizes and the file dynamic ones, which may be why " + std::to_string(uncertain) +
               (uncertain == 1 ? " node has" : " nodes have") + " no module of their own",
           place);
  diagnostic.remedy = "record torch.export.export(model, args, dynamic_shapes=...)";
  notes.push_back(std::move(diagnostic));
}

Result<AnnotateReport> annotate_file(const ModelSource& input, const Sidecar& sidecar, const ModelOutput& output,
                                     const AnnotateOptions& options) {
  const Place place{.file = input.stands_for, .stage = "annotate"};
  Diagnostics notes;
  auto result = guarded([&] {
    const NodeKeys keys(sidecar.program, keys_to_write(options));
    auto model = read_onnx_summary(input);
    if (!model) throw Error(model.diagnostics());
    const std::string digest = program_digest(sidecar.program);
    require_no_other_annotation(*model, sidecar.program, digest, options, place);
    if (model->ir_version < oldest_ir_with_node_metadata) notes.push_back(raised_ir_version(model->ir_version, place));
    AnnotateReport report;
    if (!all_stamped(*model, digest)) {
      const ProgramKeys source(keys, sidecar.program, digest);
      MatchReport found = empty_report(*model);
      if (!fully_annotated(*model, digest)) {
        match::Reference reference = make_reference(sidecar.program, keys.names(), opset_of(*model));
        if (!options.value_pairs.empty())
          reference.equal_values = read_value_pairs(options.value_pairs, sidecar.program);
        found = match_model(*model, reference);
        require_fit(found.fit, options, place, "the sidecar");
        lower_confidence(found, options);
        if (annotated_at_all_nodes(*model)) notes.push_back(nothing_left_to_annotate("the sidecar", place));
      }
      report = write_matches(*model, found, source, digest, input, output, options);
      note_fixed_recording(*model, sidecar.program, report, place, notes);
      return report;
    }
    const bool first_time = !find_property(model->metadata, keys::annotated);
    AnnotateEditor editor(keys, place, options, first_time, report);
    report.changed =
        onnx_file::rewrite_file(input, output, editor, annotation_of_model(*model), onnx_file::data_files_of(*model));
    return report;
  });
  return result ? Result<AnnotateReport>(*result, std::move(notes)) : result;
}

}  // namespace whence::annotation
