#include "annotator/annotation/annotate_foreign.h"

#include <algorithm>
#include <array>

#include "annotator/annotation/carry_name.h"
#include "annotator/annotation/changed_nodes.h"
#include "annotator/annotation/merged_entries.h"
#include "annotator/annotation/model_edit.h"
#include "annotator/match/file_structure.h"
#include "annotator/metadata/node_keys.h"
#include "annotator/onnx_file/onnx_rewrite.h"
#include "annotator/origin/carried_token.h"
#include "annotator/origin/keys/functions.h"
#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/origin/keys/program.h"
#include "annotator/origin/keys/undo.h"
#include "annotator/origin/node_name.h"
#include "annotator/origin/stamp.h"
#include "annotator/text/unique_names.h"
#include "schema/flat_map.h"

namespace whence::annotation {

using origin::Confidence;
namespace keys = origin::keys;
using match::MatchReport;
using match::NodeMatch;
using onnx_file::find_property;
using onnx_file::NodeEdit;
using onnx_file::NodeView;
using onnx_file::OnnxNode;
using onnx_file::OnnxSummary;

namespace {

using Offsets = FlatMap<std::uint64_t, std::size_t>;  // offset of a node in the file -> index of the node

Offsets offsets_of(const OnnxSummary& model, const std::vector<const OnnxNode*>& nodes) {
  Offsets offsets;
  offsets.reserve(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    offsets.emplace(static_cast<std::uint64_t>(nodes[i]->message.data() - model.file->text().data()), i);
  }
  return offsets;
}

bool is_annotated(const onnx_file::OnnxProperties& metadata) {
  return find_property(metadata, keys::confidence).has_value();
}

bool all_annotated(const std::vector<const OnnxNode*>& nodes) {
  return std::ranges::all_of(nodes, [](const OnnxNode* node) { return is_annotated(node->metadata); });
}

bool is_stale(const MatchReport& found, std::size_t index) { return index < found.stale.size() && found.stale[index]; }

// The keys in which whence states a node's origin.
constexpr std::array stale_keys = {keys::module, keys::modules,  keys::call,    keys::calls,
                                   keys::scopes, keys::source,   keys::op,      keys::confidence,
                                   keys::rule,   keys::evidence, keys::version, keys::confidence_operator,
                                   keys::primary};

class ForeignEditor : public onnx_file::NodeEditor {
 public:
  // `known_names`: by node, the name that it keeps or gets back; empty for all other nodes.
  // `stamps`: also writes the recorded operations. `replaces_stamps`: present stamps belong to another program and are
  // removed.
  ForeignEditor(const MatchReport& found, const KeySource& source, const Offsets& offsets,
                const AnnotateOptions& options, bool stamps, bool replaces_stamps,
                const std::vector<std::string_view>& known_names, AnnotateReport& report)
      : found_(found),
        source_(source),
        offsets_(offsets),
        options_(options),
        stamps_(stamps),
        replaces_stamps_(replaces_stamps),
        known_names_(known_names),
        report_(report) {
    for (const std::string_view name : known_names) {
      if (options.names && !name.empty()) unique_.claim(std::string(name));
    }
  }

  NodeEdit edit(const NodeView& node) override {
    const std::size_t index = offsets_.at(node.offset);
    const NodeMatch& match = found_.nodes[index];
    const bool annotated = is_annotated(node.metadata);
    NodeEdit edit;
    if (!annotated) {
      edit = annotation_of(node, index, match);
    } else if (is_stale(found_, index)) {
      edit = reannotation_of(node, match, index);
    }
    const Confidence confidence = confidence_after(node, edit, match.confidence);
    if (options_.tokens_go) drop_carried(node, edit);
    if (options_.carry && (annotated || match.scope.exists())) carry_name(node, confidence, edit);
    report_.nodes.add(confidence);
    return edit;
  }

 private:
  NodeEdit annotation_of(const NodeView& node, std::size_t index, const NodeMatch& match) {
    NodeEdit edit;
    if (!match.scope.exists()) {
      edit.added.emplace_back(keys::confidence, std::string(origin::name_of(match.confidence)));
      keep_existing_metadata(node, edit);
      if (replaces_stamps_) set_aside(conflicting_entries(node, keys::op), edit);
      return edit;
    }
    if (options_.names) rename(node, index, edit);
    metadata::KeyEntries entries = source_.keys_of(match, node.op_type);
    if (source_.is_requested(keys::scopes)) metadata::add_call_path(node.metadata, entries);
    for (auto& entry : entries) {
      if (!find_property(node.metadata, entry.first)) edit.added.push_back(std::move(entry));
    }
    if (origin::is_of_runtime(node.domain) && !find_property(node.metadata, keys::module)) {
      edit.added.emplace_back(keys::confidence_operator, metadata::operator_name(node.domain, node.op_type));
    }
    if (!found_.evidence[index].empty() && source_.is_requested(keys::evidence)) {
      edit.added.emplace_back(keys::evidence, found_.evidence[index]);
    }
    if (stamps_ && (replaces_stamps_ || !find_property(node.metadata, keys::op))) {
      if (const auto origin = source_.origin_of(match)) edit.added.emplace_back(keys::op, origin::to_stamp(*origin));
    }
    keep_existing_metadata(node, edit);
    set_aside(replaces_stamps_ ? conflicting_entries(node, keys::op) : repeated_entries(node), edit);
    return edit;
  }

  // Replaces the entries that whence wrote before a tool changed the node. Names and PyTorch's own keys stay.
  NodeEdit reannotation_of(const NodeView& node, const NodeMatch& match, std::size_t index) const {
    NodeEdit edit;
    for (const std::string_view key : stale_keys) {
      if (find_property(node.metadata, key)) edit.dropped_keys.push_back(key);
    }
    for (const std::string_view key : metadata::annotation_keys()) {
      const auto value = find_property(node.metadata, key);
      const bool names_placeholder = value && value->find(keys::module_placeholder) != value->npos;
      if (names_placeholder && std::ranges::find(stale_keys, key) == stale_keys.end()) edit.dropped_keys.push_back(key);
    }
    if (!match.scope.exists()) {
      edit.added.emplace_back(keys::confidence, std::string(origin::name_of(match.confidence)));
      return edit;
    }
    metadata::KeyEntries entries = source_.keys_of(match, node.op_type);
    if (source_.is_requested(keys::scopes)) metadata::add_call_path(node.metadata, entries);
    for (auto& [key, value] : entries) {
      const bool dropped = std::ranges::find(edit.dropped_keys, key) != edit.dropped_keys.end();
      if (dropped || !find_property(node.metadata, key)) edit.added.emplace_back(key, std::move(value));
    }
    if (!found_.evidence[index].empty() && source_.is_requested(keys::evidence)) {
      edit.added.emplace_back(keys::evidence, found_.evidence[index]);
    }
    if (const auto origin = stamps_ ? source_.origin_of(match) : std::nullopt) {
      edit.added.emplace_back(keys::op, origin::to_stamp(*origin));
    }
    return edit;
  }

  static void drop_carried(const NodeView& node, NodeEdit& edit) {
    if (!origin::token_in(node.doc_string)) return;
    drop_token(node, edit);
    if (find_property(node.metadata, keys::carry)) edit.dropped_keys.push_back(keys::carry);
  }

  static void set_aside(const std::vector<onnx_file::PlacedEntry>& entries, NodeEdit& edit) {
    if (entries.empty()) return;
    for (const onnx_file::PlacedEntry& entry : entries) edit.dropped_positions.push_back(entry.position);
    edit.added.emplace_back(keys::merged, to_text(entries));
  }

  void rename(const NodeView& node, std::size_t index, NodeEdit& edit) {
    std::string new_name(known_names_[index]);
    const NodeMatch& match = found_.nodes[index];
    if (new_name.empty())
      new_name = unique_.claim(origin::node_name(source_.path_of(match), node.op_type, match.confidence));
    if (new_name == node.name) return;
    edit.added.emplace_back(keys::original_name, std::string(node.name));
    edit.name = std::move(new_name);
    ++report_.renamed;
  }

  void keep_existing_metadata(const NodeView& node, NodeEdit& edit) const {
    std::string kept;
    if (stamps_ && !replaces_stamps_ && find_property(node.metadata, keys::op)) kept = keys::op;
    if (node.has_name && node.name.empty()) kept += kept.empty() ? "name" : ",name";
    list_kept_keys(node, std::move(kept), edit);
  }

  const MatchReport& found_;
  const KeySource& source_;
  const Offsets& offsets_;
  const AnnotateOptions& options_;
  bool stamps_, replaces_stamps_;
  const std::vector<std::string_view>& known_names_;
  AnnotateReport& report_;
  text::UniqueNames unique_;
};

}  // namespace

void list_kept_keys(const NodeView& node, std::string kept, NodeEdit& edit) {
  for (const std::string_view key : metadata::annotation_keys()) {
    if (!find_property(node.metadata, key)) continue;
    if (!kept.empty()) kept += ",";
    kept += key;
  }
  if (!kept.empty()) edit.added.emplace_back(keys::kept, std::move(kept));
}

Confidence confidence_after(const NodeView& node, const NodeEdit& edit, Confidence decided) {
  onnx_file::OnnxProperties metadata = node.metadata;
  std::erase_if(metadata, [&](const auto& entry) {
    return std::ranges::find(edit.dropped_keys, entry.key) != edit.dropped_keys.end();
  });
  for (const auto& [key, value] : edit.added) metadata.push_back({key, value});
  if (const auto stated = metadata::stated_confidence(node.domain, node.op_type, metadata)) return *stated;
  const auto word = find_property(metadata, keys::confidence);
  return word ? origin::parse_confidence(*word).value_or(decided) : decided;
}

bool annotated_at_all_nodes(const OnnxSummary& model) { return all_annotated(match::nodes_with_functions(model)); }

bool fully_annotated(const OnnxSummary& model, const std::string& digest) {
  return find_property(model.metadata, keys::matched) == digest && annotated_at_all_nodes(model);
}

AnnotateReport write_matches(const OnnxSummary& model, const MatchReport& found, const KeySource& source,
                             const std::string& digest, const onnx_file::ModelSource& input,
                             const onnx_file::ModelOutput& output, const AnnotateOptions& options) {
  const auto nodes = match::nodes_with_functions(model);
  const Offsets offsets = offsets_of(model, nodes);
  std::vector<std::string_view> known_names(nodes.size());
  FlatSet<std::string_view> used_names;
  used_names.reserve(nodes.size());
  const auto keeps_name = [&](std::size_t i) {
    return is_annotated(nodes[i]->metadata) || !found.nodes[i].scope.exists();
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!keeps_name(i)) continue;
    known_names[i] = nodes[i]->name;
    used_names.insert(nodes[i]->name);
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (keeps_name(i) || found.nodes[i].confidence == Confidence::ancestor) continue;
    const std::string_view name = source.own_name(found.nodes[i], nodes[i]->op_type);
    if (!name.empty() && used_names.insert(name).second) known_names[i] = name;
  }
  onnx_file::ModelEdit edit = annotation_of_model(model);
  // If every node is annotated, nothing is matched, and the file keeps the program that it was annotated with.
  const bool adds = !all_annotated(nodes) || std::ranges::find(found.stale, true) != found.stale.end();
  // Some tools drop the nodes' metadata but keep the model's. Then the model's entries are outdated and are replaced.
  const bool all_dropped =
      std::ranges::none_of(nodes, [](const OnnxNode* node) { return is_annotated(node->metadata); });
  const auto set_entry = [&](std::string_view key, const std::string& value) {
    const auto before = find_property(model.metadata, key);
    if (before && (!all_dropped || before == value)) return;
    if (before) edit.dropped_keys.push_back(key);
    edit.added.emplace_back(key, value);
  };
  if (adds) set_entry(keys::matched, digest);
  // The IR version was then chosen by the tool, so strip must not restore an older one.
  if (all_dropped && !edit.ir_version) edit.dropped_keys.push_back(keys::original_ir_version);
  AnnotateReport report;
  // A stamp is meaningful only together with the sidecar of its program. Nodes of whence's own export have stamps
  // unless an optimiser dropped them.
  const std::string program = source.program();
  const auto exported = find_property(model.metadata, keys::program);
  const bool stamps = !program.empty() && source.is_requested(keys::confidence);
  const bool replaces_stamps = stamps && exported && exported != program;
  if (stamps && adds && program != digest && exported != program) set_entry(keys::stamped, program);
  ForeignEditor editor(found, source, offsets, options, stamps, replaces_stamps, known_names, report);
  report.changed = onnx_file::rewrite_file(input, output, editor, std::move(edit), onnx_file::data_files_of(model));
  report.fit = found.fit;
  return report;
}

}  // namespace whence::annotation
