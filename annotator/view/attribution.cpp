#include "annotator/view/attribution.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "annotator/merge/keys.h"
#include "annotator/merge/stamp.h"
#include "schema/files.h"

namespace whence {
namespace {

constexpr std::array<std::string_view, confidence_count> confidence_words = {"exact", "matched", "inferred", "ancestor",
                                                                             "unattributed"};

std::string text_of(const OnnxNode& node, std::string_view key) {
  return std::string(find_property(node.metadata, key).value_or(""));
}

// The JSON array of pkg.whence.modules; the one module when it is absent or no such array.
std::vector<std::string> modules_of(const OnnxNode& node, const std::string& module) {
  const auto text = find_property(node.metadata, keys::modules);
  if (!text) return {module};
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> modules;
  for (const auto& entry : json.is_array() ? json : nlohmann::json::array()) {
    if (entry.is_string()) modules.push_back(entry.get<std::string>());
  }
  return modules.empty() ? std::vector<std::string>{module} : modules;
}

// What annotate would write: fused nodes belong to all modules they replaced, shared ones to the common ancestor.
void attribute_by_stamp(Attribution& to, const Recorded& recorded) {
  const Program& program = recorded.program();
  std::vector<ScopeId> scopes;
  std::vector<std::string> modules;
  for (const std::int32_t op : to.origin->ops) {
    const Node* node = recorded.operation(op);
    if (node == nullptr) return;  // a stamp of another program
    scopes.push_back(node->origin.scope);
    const std::string& path = program.module_path(node->origin.scope);
    if (std::find(modules.begin(), modules.end(), path) == modules.end()) modules.push_back(path);
  }
  const ScopeId scope = common_ancestor(program, scopes);
  to.module = program.module_path(scope);
  to.call = std::to_string(program.scopes[scope].call);
  const bool several = std::any_of(scopes.begin(), scopes.end(), [&](ScopeId other) { return other != scope; });
  to.confidence = to.origin->kind == OriginKind::shared && several ? Confidence::ancestor : Confidence::exact;
  to.modules = to.origin->kind == OriginKind::fused ? modules : std::vector<std::string>{to.module};
  to.rule = "stamp";
  const Node& first = *recorded.operation(to.origin->ops.front());
  if (first.origin.stack != none_id && !program.stacks[first.origin.stack].empty()) {
    to.source = frame_text(program.stacks[first.origin.stack].front());
  }
}

}  // namespace

std::string_view name_of(Confidence confidence) { return confidence_words[static_cast<std::size_t>(confidence)]; }

std::optional<Confidence> parse_confidence(std::string_view word) {
  const auto found = std::find(confidence_words.begin(), confidence_words.end(), word);
  if (found == confidence_words.end()) return std::nullopt;
  return static_cast<Confidence>(found - confidence_words.begin());
}

const Node* Recorded::operation(std::int32_t index) const {
  return index >= 0 && static_cast<std::size_t>(index) < operations_.size() ? operations_[index] : nullptr;
}

Attribution attribution_of(const OnnxNode& node, const Recorded* recorded) {
  Attribution result;
  if (const auto stamp = find_property(node.metadata, keys::op)) result.origin = parse_stamp(*stamp);
  const auto module = find_property(node.metadata, keys::module);
  if (!module) {
    if (result.origin && recorded != nullptr) attribute_by_stamp(result, *recorded);
    return result;
  }
  const auto confidence = find_property(node.metadata, keys::confidence);
  result.confidence = parse_confidence(confidence.value_or("")).value_or(Confidence::unattributed);
  if (!result.attributed()) return result;
  result.module = std::string(*module);
  result.modules = modules_of(node, result.module);
  result.call = text_of(node, keys::call);
  result.rule = text_of(node, keys::rule);
  result.source = text_of(node, keys::source);
  return result;
}

bool belongs_to(const OnnxSummary& model, const Program& program) {
  return find_property(model.metadata, keys::program) == program_digest(program);
}

std::string frame_text(const Frame& frame) {
  return base_name(frame.file) + ":" + std::to_string(frame.line) +
         (frame.function.empty() ? "" : " " + frame.function);
}

}  // namespace whence
