#include "annotator/metadata/node_keys.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "annotator/metadata/main_module.h"
#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/origin/keys/torch.h"
#include "annotator/origin/python_text.h"
#include "annotator/origin/scope_path.h"
#include "annotator/origin/stamp.h"
#include "annotator/text/python_list.h"
#include "schema/json_text.h"
#include "schema/source_stack.h"

namespace whence::metadata {

using origin::Confidence;
using origin::NodeOrigin;
using origin::OriginKind;
namespace keys = origin::keys;
using onnx_file::find_property;
using origin::unstated_confidence;

namespace {

// Indents further lines of a statement like the first.
std::string indented(const std::string& lines) {
  std::string text;
  for (const char c : lines) {
    text += c;
    if (c == '\n') text += "    ";
  }
  return text;
}

std::string* find_entry(KeyEntries& entries, std::string_view key) {
  const auto found = std::ranges::find(entries, key, &KeyEntries::value_type::first);
  return found == entries.end() ? nullptr : &found->second;
}

// True for keys that describe one fx node with its modules, so that they are never valid for several operations.
bool is_of_pytorch(std::string_view key) {
  return key == keys::name_space || key == keys::class_hierarchy || key == keys::name_scopes || key == keys::fx_node;
}

// Returns the call path in PyTorch's scopes: all but the last, which is the operation.
std::optional<std::string> call_path_in(std::string_view name_scopes) {
  auto names = text::parse_python_list(name_scopes);
  if (!names || names->empty()) return std::nullopt;
  names->pop_back();
  return json_text(nlohmann::json(*names));
}

}  // namespace

void add_call_path(const onnx_file::OnnxProperties& existing_metadata, KeyEntries& entries) {
  const std::string* const scopes = find_entry(entries, keys::name_scopes);
  const std::string* const stated = find_entry(entries, keys::scopes);
  const auto before = find_property(existing_metadata, keys::name_scopes);
  if (stated == nullptr && !before) return;  // the scopes to write already state it
  const auto call_path = stated != nullptr   ? std::optional(*stated)
                         : scopes != nullptr ? call_path_in(*scopes)
                                             : std::nullopt;
  if (!call_path) return;
  std::erase_if(entries, [](const auto& entry) { return entry.first == keys::scopes; });
  const auto present_path = before ? call_path_in(*before) : scopes != nullptr ? call_path_in(*scopes) : std::nullopt;
  if (present_path != call_path) entries.emplace_back(keys::scopes, *call_path);
}

std::string operator_name(std::string_view domain, std::string_view op_type) {
  return std::string(domain) + "::" + std::string(op_type);
}

std::optional<Confidence> stated_confidence(std::string_view domain, std::string_view op_type,
                                            const onnx_file::OnnxProperties& metadata) {
  if (!find_property(metadata, keys::module)) return std::nullopt;
  const auto word = find_property(metadata, keys::confidence);
  const Confidence stated = word ? origin::parse_confidence(*word).value_or(unstated_confidence) : unstated_confidence;
  const bool own = find_property(metadata, keys::confidence_operator) == operator_name(domain, op_type);
  return own ? stated : origin::limited_by(domain, stated);
}

void state_confidence(Confidence confidence, KeyEntries& entries) {
  if (find_entry(entries, keys::confidence) != nullptr || find_entry(entries, keys::module) == nullptr) return;
  entries.emplace_back(keys::confidence, std::string(origin::name_of(confidence)));
}

const std::vector<std::string_view>& annotation_keys() {
  static const std::vector<std::string_view> all = {keys::name_space, keys::class_hierarchy, keys::name_scopes,
                                                    keys::fx_node,    keys::stack_trace,     keys::module,
                                                    keys::modules,    keys::primary,         keys::id,
                                                    keys::call,       keys::calls,           keys::scopes,
                                                    keys::source,     keys::confidence,      keys::rule,
                                                    keys::evidence,   keys::version,         keys::confidence_operator};
  return all;
}

std::optional<std::string_view> find_annotation_key(std::string_view name) {
  for (const std::string_view key : annotation_keys()) {
    if (key == name || key.substr(key.rfind('.') + 1) == name) return key;
  }
  return std::nullopt;
}

NodeKeys::NodeKeys(const Program& program, std::vector<std::string_view> requested_keys)
    : program_(program), requested_keys_(std::move(requested_keys)), operations_(operations(program)), names_(program) {
  if (is_requested(keys::id)) ids_.emplace(program, operations_);
}

bool NodeKeys::is_requested(std::string_view key) const {
  return std::ranges::find(requested_keys_, key) != requested_keys_.end();
}

bool NodeKeys::has_operations(const NodeOrigin& origin) const {
  return std::ranges::all_of(origin.ops,
                             [&](std::int32_t op) { return static_cast<std::size_t>(op) < operations_.size(); });
}

ScopeId NodeKeys::scope(const NodeOrigin& origin) const { return origin::scope_of(origin, program_, operations_); }

Confidence NodeKeys::confidence(const NodeOrigin& origin) const {
  if (!has_one_scope(origin)) return Confidence::ancestor;
  ScopeBasis weakest = ScopeBasis::observed;
  for (const std::int32_t op : origin.ops) weakest = std::max(weakest, operations_[op]->origin.basis);
  return weakest == ScopeBasis::observed   ? Confidence::exact
         : weakest == ScopeBasis::inferred ? Confidence::inferred
                                           : Confidence::ancestor;
}

bool NodeKeys::has_one_scope(const NodeOrigin& origin) const {
  if (origin.kind != OriginKind::shared) return true;
  if (origin.ops.empty()) return false;
  const ScopeId first = operations_[origin.ops.front()]->origin.scope;
  return std::ranges::all_of(origin.ops, [&](std::int32_t op) { return operations_[op]->origin.scope == first; });
}

std::vector<std::pair<std::string_view, std::string>> NodeKeys::of(const NodeOrigin& origin,
                                                                   std::string_view op_type) const {
  return of(
      {origin, scope(origin), confidence(origin), origin.kind == OriginKind::shared ? "shared" : "stamp", op_type});
}

std::vector<std::pair<std::string_view, std::string>> NodeKeys::of(const NodePlace& place) const {
  std::vector<std::pair<std::string_view, std::string>> result;
  for (const std::string_view key : requested_keys_) {
    if (auto text = value(key, place)) result.emplace_back(key, std::move(*text));
  }
  state_confidence(place.confidence, result);
  return result;
}

Confidence NodeKeys::confidence_of_export(const NodeOrigin& origin, std::string_view domain) const {
  return origin::limited_by(domain, confidence(origin));
}

KeyEntries NodeKeys::of_export(const NodeOrigin& origin, std::string_view domain, std::string_view op_type,
                               const onnx_file::OnnxProperties& existing_metadata) const {
  KeyEntries entries = of(origin, op_type);
  if (is_requested(keys::scopes)) add_call_path(existing_metadata, entries);
  for (auto& [key, value] : entries) {
    if (key == keys::confidence) value = origin::name_of(confidence_of_export(origin, domain));
  }
  std::erase_if(entries, [&](const auto& entry) { return find_property(existing_metadata, entry.first).has_value(); });
  return entries;
}

std::string NodeKeys::path(const NodeOrigin& origin) const { return origin::scope_path(program_, scope(origin)); }

// A key with a single value describes the first of several operations. Without operations, keys of operations are left
// out. For confidence `ancestor` it is unknown which operation the node is, so a key is written only if its value is
// the same for all.
std::optional<std::string> NodeKeys::value(std::string_view key, const NodePlace& place) const {
  if (key == keys::module) return program_.module_path(place.scope);
  if (key == keys::call) return std::to_string(program_.scopes[place.scope].call);
  if (key == keys::calls) return calls(place.scope);
  if (key == keys::confidence) return std::string(origin::name_of(place.confidence));
  if (key == keys::rule) return std::string(place.rule);
  if (key == keys::version) return WHENCE_VERSION;
  if (place.origin.ops.empty()) return key == keys::scopes ? std::optional(call_path(place.scope)) : std::nullopt;
  if (key == keys::modules) return modules(place.origin);
  if (key == keys::primary) return primary(place);
  if (key == keys::id) return id(place);
  std::optional<std::string> text = value(key, place, place.origin.ops.front());
  if (place.confidence < Confidence::ancestor || key == keys::scopes) return text;
  const bool holds_for_all = std::ranges::all_of(place.origin.ops, [&](std::int32_t op) {
    return value(key, place, op) == text && (!is_of_pytorch(key) || op == place.origin.ops.front());
  });
  return holds_for_all ? text : std::nullopt;
}

std::optional<std::string> NodeKeys::value(std::string_view key, const NodePlace& place, std::int32_t op) const {
  const Node& node = *operations_[op];
  // PyTorch's keys describe one fx node; for a shared helper, the first operation that it serves.
  const ScopeId keyed_scope = place.origin.kind == OriginKind::shared ? node.origin.scope : place.scope;
  if (key == keys::scopes) {
    const bool scopes_state_path = keyed_scope == place.scope && pytorch_lists_modules(node);
    return scopes_state_path ? std::nullopt : std::optional(call_path(place.scope));
  }
  if (key == keys::name_space) return name_space(node, keyed_scope);
  if (key == keys::class_hierarchy) return class_hierarchy(node, keyed_scope);
  if (key == keys::name_scopes) return name_scopes(node, keyed_scope);
  if (key == keys::fx_node) return names_.format(op);
  if (key == keys::stack_trace) return stack_trace(node);
  if (key == keys::source) return source(node);
  return std::nullopt;
}

std::vector<ModuleId> NodeKeys::modules_on_path(ScopeId scope) const {
  std::vector<ModuleId> path;
  for (; scope != none_id; scope = program_.scopes[scope].parent) path.push_back(program_.scopes[scope].module);
  std::ranges::reverse(path);
  return path;
}

// False for operations of a .pt2 of which only an enclosing module is known, such as some in the graphs of cond and
// while_loop: PyTorch lists no modules for them.
bool NodeKeys::pytorch_lists_modules(const Node& node) const {
  return program_.source.kind != "torch.export" || node.origin.basis != ScopeBasis::enclosing;
}

std::vector<ModuleId> NodeKeys::modules_in_stack(const Node& node, ScopeId scope) const {
  return pytorch_lists_modules(node) ? modules_on_path(scope) : std::vector<ModuleId>();
}

std::vector<CalledModule> NodeKeys::called_modules(ScopeId scope) const {
  std::vector<CalledModule> path;
  for (; scope != none_id; scope = program_.scopes[scope].parent) {
    const Scope& called = program_.scopes[scope];
    path.push_back({.path = program_.modules[called.module].path, .call = called.call});
  }
  std::ranges::reverse(path);
  return path;
}

std::optional<std::string> NodeKeys::calls(ScopeId scope) const {
  std::string text = calls_text(called_modules(scope));
  return text.empty() ? std::nullopt : std::optional(std::move(text));
}

std::string NodeKeys::call_path(ScopeId scope) const { return call_path_text(called_modules(scope)); }

std::string NodeKeys::name_space(const Node& node, ScopeId scope) const {
  std::string text;
  for (const ModuleId module : modules_in_stack(node, scope)) {
    text += program_.modules[module].path + ": " + program_.modules[module].type + "/";
  }
  return text + names_.name(node.origin.op) + ": " + names_.target(node.origin.op);
}

std::string NodeKeys::class_hierarchy(const Node& node, ScopeId scope) const {
  std::vector<std::string> classes;
  for (const ModuleId module : modules_in_stack(node, scope)) classes.push_back(program_.modules[module].type);
  classes.push_back(names_.target(node.origin.op));
  return origin::python_repr(classes);
}

std::string NodeKeys::name_scopes(const Node& node, ScopeId scope) const {
  std::vector<std::string> names;
  for (const ModuleId module : modules_in_stack(node, scope)) names.push_back(program_.modules[module].path);
  names.push_back(names_.name(node.origin.op));
  return origin::python_repr(names);
}

// Returns the text of a Python traceback, outermost frame first, with source lines if available. PyTorch writes an
// empty text for an fx node without a traceback.
std::optional<std::string> NodeKeys::stack_trace(const Node& node) const {
  if (node.origin.stack == none_id) return node.origin.text.empty() ? std::nullopt : std::optional(std::string());
  const Stack& stack = program_.stacks[node.origin.stack];
  std::string text;
  for (auto frame = stack.rbegin(); frame != stack.rend(); ++frame) {
    if (!text.empty()) text += "\n  ";
    if (!frame->file.empty()) text += "File \"" + frame->file + "\", line " + std::to_string(frame->line);
    if (!frame->function.empty()) text += (frame->file.empty() ? "in " : ", in ") + frame->function;
    if (!frame->text.empty()) text += "\n    " + indented(frame->text);
  }
  return text.empty() ? std::nullopt : std::optional(text);
}

std::optional<std::string> NodeKeys::source(const Node& node) const {
  if (node.origin.stack == none_id) return std::nullopt;
  std::string place = source_place(program_.stacks[node.origin.stack]);
  return place.empty() ? std::nullopt : std::optional(std::move(place));
}

// Lists several modules only for a fused node. For a helper the list would contain every module that uses a constant.
std::vector<std::string> NodeKeys::several_modules(const NodeOrigin& origin) const {
  if (origin.kind != OriginKind::fused) return {};
  std::vector<std::string> paths;
  for (const std::int32_t op : origin.ops) {
    const std::string& path = program_.module_path(operations_[op]->origin.scope);
    if (std::ranges::find(paths, path) == paths.end()) paths.push_back(path);
  }
  return paths.size() < 2 ? std::vector<std::string>() : paths;
}

std::optional<std::string> NodeKeys::modules(const NodeOrigin& origin) const {
  const std::vector<std::string> paths = several_modules(origin);
  return paths.empty() ? std::nullopt : std::optional(json_text(nlohmann::json(paths)));
}

std::optional<std::string> NodeKeys::primary(const NodePlace& place) const {
  if (several_modules(place.origin).empty()) return std::nullopt;
  std::vector<std::string_view> targets;
  std::vector<std::string> modules;
  for (const std::int32_t op : place.origin.ops) {
    targets.push_back(operations_[op]->target);
    modules.push_back(program_.module_path(operations_[op]->origin.scope));
  }
  return main_module(place.op_type, targets, modules);
}

// Returns no identity for a helper, which is none of the operations that it serves, or for confidence `ancestor`, where
// the operation is unknown.
std::optional<std::string> NodeKeys::id(const NodePlace& place) const {
  if (place.origin.kind == OriginKind::shared || place.confidence >= Confidence::ancestor) return std::nullopt;
  std::vector<std::string> ids;
  for (const std::int32_t op : place.origin.ops) ids.push_back(ids_->id(op));
  return ids_text(std::move(ids));
}

}  // namespace whence::metadata
