#include "annotator/validation/tool_edit.h"

#include <algorithm>

#include "annotator/metadata/operation_ids.h"
#include "annotator/origin/keys/program.h"
#include "annotator/origin/keys/undo.h"
#include "schema/module_path.h"

namespace whence::validation {

using onnx_file::OnnxNode;
using onnx_file::OnnxSummary;
using view::DiffNode;

namespace {

constexpr std::string_view model_key_prefix = "pkg.whence.";

bool is_kept(const OnnxNode& before, const OnnxNode& after) {
  if (before.op_type != after.op_type || before.domain != after.domain) return false;
  if (!before.name.empty() && before.name == after.name) return true;
  return !before.outputs.empty() && !after.outputs.empty() && before.outputs.front() == after.outputs.front();
}

void keep_strongest(ConfidenceOf& to, const std::string& name, origin::Confidence confidence) {
  const auto [entry, added] = to.try_emplace(name, confidence);
  if (!added) entry->second = std::min(entry->second, confidence);
}

void add_confidences(const DiffNode& node, ToolEdit& edit) {
  const metadata::Attribution& attribution = node.attribution;
  if (!attribution.attributed()) return;
  for (const std::string& id : metadata::parse_ids(attribution.id))
    keep_strongest(edit.operation_confidence, id, attribution.confidence);
  for (const std::string& module : attribution.modules)
    keep_strongest(edit.module_confidence, module, attribution.confidence);
}

}  // namespace

ToolEdit tool_edit(const OnnxSummary& before, const OnnxSummary& after) {
  ToolEdit edit;
  edit.before = view::diff_nodes(before, nullptr, view::Reading::by_whence);
  edit.after = view::diff_nodes(after, nullptr, view::Reading::by_whence);
  for (const DiffNode& node : edit.before) add_confidences(node, edit);
  for (const auto& [module, _] : edit.module_confidence) {
    std::string_view ancestor = module;
    while (edit.known_modules.emplace(ancestor).second && !ancestor.empty()) ancestor = module_around(ancestor);
  }
  const view::NodePairs pairs = view::pair_nodes(edit.before, edit.after, view::Evidence::without_origins);
  for (const view::NodePairs::Pair& pair : pairs.pairs) {
    const DiffNode &was = edit.before[pair.a], &is = edit.after[pair.b];
    if (is_kept(*was.node, *is.node)) edit.kept.push_back({&was, &is, pair.b});
  }
  edit.sources = find_sources(edit.before, edit.after, pairs);
  const auto matched = onnx_file::find_property(after.metadata, origin::keys::matched);
  edit.is_reannotated = matched && matched->starts_with(origin::keys::file_before) &&
                        matched != onnx_file::find_property(before.metadata, origin::keys::matched);
  for (const onnx_file::OnnxProperty& entry : onnx_file::OnnxProperties(before.metadata)) {
    // The tool may store the weights in other files.
    if (!entry.key.starts_with(model_key_prefix) || entry.key == origin::keys::data_files) continue;
    const auto now = onnx_file::find_property(after.metadata, entry.key);
    if (!now) edit.lost_model_keys.emplace_back(entry.key);
    if (now && *now != entry.value && !edit.is_reannotated) edit.changed_model_keys.emplace_back(entry.key);
  }
  return edit;
}

}  // namespace whence::validation
