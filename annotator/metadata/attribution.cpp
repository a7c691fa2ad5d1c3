#include "annotator/metadata/attribution.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "annotator/metadata/exporter_keys.h"
#include "annotator/origin/common_module.h"
#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/origin/keys/program.h"
#include "annotator/origin/stamp.h"
#include "schema/module_path.h"

namespace whence::metadata {

namespace keys = origin::keys;
using onnx_file::find_property;
using onnx_file::OnnxProperties;

namespace {

std::string text_of(const OnnxProperties& metadata, std::string_view key) {
  return std::string(find_property(metadata, key).value_or(""));
}

// Returns the modules in pkg.whence.modules; only `module` if the key is absent or not an array of names.
std::vector<std::string> modules_of(const OnnxProperties& metadata, const std::string& module) {
  const auto text = find_property(metadata, keys::modules);
  if (!text) return {module};
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> modules;
  for (const auto& entry : json.is_array() ? json : nlohmann::json::array()) {
    if (entry.is_string()) modules.push_back(entry.get<std::string>());
  }
  return modules.empty() ? std::vector<std::string>{module} : modules;
}

// Returns the module in pkg.whence.primary; `module` if the key is absent or its module is not inside `module`.
std::string primary_of(const OnnxProperties& metadata, const std::string& module) {
  const auto primary = find_property(metadata, keys::primary);
  return primary && at_or_below(*primary, module) ? std::string(*primary) : module;
}

void read_keys(const onnx_file::OnnxNode& node, const OnnxProperties& metadata, Attribution& to) {
  const auto stated = stated_confidence(node.domain, node.op_type, metadata);
  to.confidence = stated.value_or(origin::Confidence::unattributed);
  if (!to.attributed()) return;
  to.module = text_of(metadata, keys::module);
  to.modules = modules_of(metadata, to.module);
  to.primary = primary_of(metadata, to.module);
  to.id = text_of(metadata, keys::id);
  to.call = text_of(metadata, keys::call);
  to.rule = text_of(metadata, keys::rule);
  to.source = text_of(metadata, keys::source);
}

}  // namespace

Recorded::Recorded(const Program& program)
    : program_(program),
      operations_(operations(program)),
      keys_(program, {keys::module, keys::modules, keys::primary, keys::id, keys::call, keys::source, keys::confidence,
                      keys::rule}) {}

const Node* Recorded::operation(std::int32_t index) const {
  return index >= 0 && static_cast<std::size_t>(index) < operations_.size() ? operations_[index] : nullptr;
}

namespace {

Attribution read_by_whence(const onnx_file::OnnxNode& node, const OnnxProperties& existing_metadata,
                           const Recorded* recorded) {
  Attribution result;
  if (const auto stamp = find_property(existing_metadata, keys::op)) result.origin = origin::parse_stamp(*stamp);
  const bool annotated = find_property(existing_metadata, keys::module).has_value();
  if (annotated || recorded == nullptr || !result.origin || !recorded->keys().has_operations(*result.origin)) {
    read_keys(node, existing_metadata, result);
    return result;
  }
  const auto computed = recorded->keys().of(*result.origin, node.op_type);
  OnnxProperties metadata;
  for (const auto& [key, value] : computed) metadata.push_back({key, value});
  read_keys(node, metadata, result);
  // A file annotated with selected keys may state the confidence without the module.
  const auto stated = find_property(existing_metadata, keys::confidence);
  const auto word = stated ? origin::parse_confidence(*stated) : std::nullopt;
  if (word) result.confidence = std::max(result.confidence, *word);
  return result;
}

}  // namespace

Attribution attribution_by_whence(const onnx_file::OnnxNode& node, const Recorded* recorded) {
  return read_by_whence(node, node.metadata, recorded);
}

Attribution attribution_of(const onnx_file::OnnxNode& node, const Recorded* recorded) {
  const OnnxProperties metadata = node.metadata;
  Attribution result = read_by_whence(node, metadata, recorded);
  if (result.attributed() || find_property(metadata, keys::confidence)) return result;  // annotate found no origin
  std::optional<ExporterOrigin> stated = origin_by_exporter(node, metadata);
  if (!stated) return result;
  result.confidence = origin::limited_by(node.domain, stated->confidence);
  result.module = origin::common_module(stated->modules);
  result.primary = stated->primary.value_or(result.module);
  result.modules = std::move(stated->modules);
  result.source = std::move(stated->source);
  result.rule = "carried";
  result.by_exporter = true;
  return result;
}

std::string type_by_exporter(const onnx_file::OnnxNode& node, std::string_view module) {
  for (CalledModule& each : exporter_scopes(node).modules) {
    if (each.path == module) return std::move(each.type);
  }
  return "";
}

void note_origins(std::int64_t by_exporter, std::int64_t nodes, const std::string& file, Diagnostics& notes) {
  if (by_exporter == 0) return;
  const std::string some = "for " + std::to_string(by_exporter) + " of " + std::to_string(nodes) + " nodes, ";
  Diagnostic found = note(Code::usage,
                          (by_exporter < nodes ? some : "") +
                              "origins are read from the exporter's own metadata, which is wrong for some nodes",
                          {.file = file, .stage = "read"});
  found.remedy = "`whence annotate " + file + " --sidecar ...` gives reliable origins";
  notes.push_back(std::move(found));
}

void note_origins(const onnx_file::OnnxSummary& model, Diagnostics& notes) {
  const std::vector<const onnx_file::OnnxNode*> nodes = onnx_file::all_nodes(model.graph);
  const auto read = std::ranges::count_if(nodes, [](const onnx_file::OnnxNode* node) {
    return !node->metadata.empty() && attribution_of(*node, nullptr).by_exporter;
  });
  note_origins(read, static_cast<std::int64_t>(nodes.size()), model.file->path(), notes);
}

std::optional<std::string_view> stamped_program(const onnx_file::OnnxSummary& model) {
  const auto matched = find_property(model.metadata, keys::matched);
  const bool is_program = matched && !matched->starts_with(keys::file_before) && !matched->starts_with(keys::weights);
  if (is_program && *matched != keys::own_names) return matched;
  const auto stamped = find_property(model.metadata, keys::stamped);
  return stamped ? stamped : find_property(model.metadata, keys::program);
}

bool belongs_to(const onnx_file::OnnxSummary& model, const Program& program) {
  return stamped_program(model) == program_digest(program);
}

}  // namespace whence::metadata
