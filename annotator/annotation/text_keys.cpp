#include "annotator/annotation/text_keys.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "annotator/metadata/main_module.h"
#include "annotator/metadata/node_keys.h"
#include "annotator/metadata/operation_ids.h"
#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/origin/keys/torch.h"
#include "annotator/origin/stamp.h"
#include "schema/json_text.h"
#include "schema/sort_unique.h"

namespace whence::annotation {

namespace keys = origin::keys;
using match::name_of;
using match::NodeMatch;
using onnx_file::find_property;
using onnx_file::OnnxNode;
using origin::name_of;
using origin::NodeOrigin;
using origin::OriginKind;

namespace {

// True for keys that describe one node's operation and are copied to the node that replaced it.
bool taken_over(std::string_view key) {
  return key == keys::name_space || key == keys::class_hierarchy || key == keys::name_scopes || key == keys::fx_node ||
         key == keys::stack_trace || key == keys::call || key == keys::calls || key == keys::scopes ||
         key == keys::source;
}

// True for copied keys that describe the operation and not only the module's call.
bool describes_operation(std::string_view key) {
  return taken_over(key) && key != keys::call && key != keys::calls && key != keys::scopes;
}

}  // namespace

std::vector<std::string> TextKeys::modules_of(const NodeMatch& match) const {
  std::vector<std::string> modules;
  const auto add = [&](std::string path) {
    if (std::find(modules.begin(), modules.end(), path) == modules.end()) modules.push_back(std::move(path));
  };
  for (const match::UnitIndex unit : match.units) {
    const OnnxNode* node = node_of(unit);
    if (node == nullptr) {  // the unit is a module
      if (reference_.units[unit].scope.exists()) add(reference_.scopes[reference_.units[unit].scope].path);
      continue;
    }
    const auto list = find_property(node->metadata, keys::modules);
    const auto json = nlohmann::json::parse(list.value_or(""), nullptr, /*allow_exceptions=*/false);
    if (json.is_array() && !json.empty()) {
      for (const auto& each : json) {
        if (each.is_string()) add(each.get<std::string>());
      }
    } else if (reference_.units[unit].scope.exists()) {
      add(reference_.scopes[reference_.units[unit].scope].path);
    }
  }
  return modules;
}

std::string TextKeys::primary_of(const NodeMatch& match, std::string_view op_type) const {
  std::vector<std::string_view> operators;
  std::vector<std::string> modules;
  for (const match::UnitIndex unit : match.units) {
    if (!reference_.units[unit].scope.exists()) continue;
    const OnnxNode* node = node_of(unit);
    operators.push_back(node == nullptr ? std::string_view() : node->op_type);
    const auto stated = node == nullptr ? std::nullopt : find_property(node->metadata, keys::primary);
    modules.emplace_back(stated.value_or(reference_.scopes[reference_.units[unit].scope].path));
  }
  return metadata::main_module(op_type, operators, modules);
}

// Returns no identities for a helper of several operations, because it is not one of these operations.
std::vector<std::string> TextKeys::ids_of(const NodeMatch& match) const {
  std::vector<std::string> ids;
  if (match.shared || match.confidence >= origin::Confidence::ancestor) return ids;
  for (const match::UnitIndex unit : match.units) {
    const OnnxNode* node = node_of(unit);
    if (node == nullptr) return {};
    const auto of_node = metadata::parse_ids(find_property(node->metadata, keys::id).value_or(""));
    ids.insert(ids.end(), of_node.begin(), of_node.end());
  }
  return ids;
}

// The reference has call paths only if its nodes have call numbers, which distinguish the calls of a module.
std::optional<std::vector<metadata::CalledModule>> TextKeys::call_path_of(const NodeMatch& match) const {
  for (const match::UnitIndex unit : match.units) {
    const OnnxNode* node = node_of(unit);
    if (node == nullptr || !find_property(node->metadata, keys::call)) return std::nullopt;
  }
  std::vector<metadata::CalledModule> call_path;
  for (match::ScopeIndex scope = match.scope; scope.exists(); scope = reference_.scopes[scope].parent) {
    call_path.push_back({.path = reference_.scopes[scope].path, .call = reference_.scopes[scope].call});
  }
  std::ranges::reverse(call_path);
  return call_path;
}

std::optional<std::string> TextKeys::value_in_call_path(std::string_view key,
                                                        const std::vector<metadata::CalledModule>& call_path) {
  if (key == keys::call) return std::to_string(call_path.back().call);
  if (key == keys::calls) {
    std::string calls = metadata::calls_text(call_path);
    return calls.empty() ? std::nullopt : std::optional(std::move(calls));
  }
  if (key == keys::scopes) return metadata::call_path_text(call_path);
  return std::nullopt;
}

std::vector<std::pair<std::string_view, std::string>> TextKeys::keys_of(const NodeMatch& match,
                                                                        std::string_view op_type) const {
  const OnnxNode* only = only_node(match);
  const onnx_file::OnnxProperties existing_metadata =
      only == nullptr ? onnx_file::OnnxProperties() : only->metadata.list();
  const bool of_node = only != nullptr && reference_.units[match.units[0]].scope == match.scope;
  const auto call_path = of_node || match.units.empty() ? std::nullopt : call_path_of(match);
  const std::vector<std::string> modules = match.shared ? std::vector<std::string>{} : modules_of(match);
  std::vector<std::pair<std::string_view, std::string>> result;
  for (const std::string_view key : requested_keys_) {
    if (key == keys::module) {
      result.emplace_back(key, reference_.scopes[match.scope].path);
    } else if (key == keys::modules && modules.size() > 1) {
      result.emplace_back(key, json_text(nlohmann::json(modules)));
    } else if (key == keys::primary && modules.size() > 1) {
      result.emplace_back(key, primary_of(match, op_type));
    } else if (key == keys::confidence) {
      result.emplace_back(key, std::string(name_of(match.confidence)));
    } else if (key == keys::rule) {
      result.emplace_back(key, std::string(name_of(match.rule)));
    } else if (key == keys::version) {
      result.emplace_back(key, WHENCE_VERSION);
    } else if (key == keys::id) {
      if (auto ids = metadata::ids_text(ids_of(match))) result.emplace_back(key, *std::move(ids));
    } else if (call_path && (key == keys::call || key == keys::calls || key == keys::scopes)) {
      if (auto value = value_in_call_path(key, *call_path)) result.emplace_back(key, *std::move(value));
    } else if (taken_over(key) && (!describes_operation(key) || has_certain_operations(match))) {
      if (const auto value = find_property(existing_metadata, key)) result.emplace_back(key, std::string(*value));
    }
  }
  metadata::state_confidence(match.confidence, result);
  return result;
}

bool TextKeys::has_certain_operations(const NodeMatch& match) const {
  constexpr auto ancestor = origin::Confidence::ancestor;
  return match.confidence != ancestor || std::ranges::all_of(match.units, [&](match::UnitIndex unit) {
           return reference_.units[unit].confidence == ancestor;
         });
}

const OnnxNode* TextKeys::node_of(match::UnitIndex unit) const {
  const auto position = static_cast<std::size_t>(unit.number());
  return position < nodes_.size() ? nodes_[position] : nullptr;
}

const OnnxNode* TextKeys::only_node(const NodeMatch& match) const {
  return match.units.size() == 1 ? node_of(match.units[0]) : nullptr;
}

std::string_view TextKeys::own_name(const NodeMatch& match, std::string_view op_type) const {
  const OnnxNode* only = only_node(match);
  return only != nullptr && only->op_type == op_type ? only->name : std::string_view();
}

bool TextKeys::is_requested(std::string_view key) const {
  return std::find(requested_keys_.begin(), requested_keys_.end(), key) != requested_keys_.end();
}

std::optional<NodeOrigin> TextKeys::origin_of(const NodeMatch& match) const {
  if (match.units.empty() || !has_certain_operations(match)) return std::nullopt;
  std::vector<NodeOrigin> all;
  for (const match::UnitIndex unit : match.units) {
    const OnnxNode* node = node_of(unit);
    if (node == nullptr) return std::nullopt;
    auto origin = origin::parse_stamp(find_property(node->metadata, keys::op).value_or(""));
    if (!origin) return std::nullopt;
    all.push_back(std::move(*origin));
  }
  if (all.size() == 1) return std::move(all.front());
  NodeOrigin combined;
  for (const NodeOrigin& each : all) combined.ops.insert(combined.ops.end(), each.ops.begin(), each.ops.end());
  sort_unique(combined.ops);
  const bool shared =
      match.shared || std::ranges::any_of(all, [](const NodeOrigin& each) { return each.kind == OriginKind::shared; });
  if (shared) {
    combined.kind = OriginKind::shared;
  } else if (combined.ops.size() > 1) {
    combined.kind = OriginKind::fused;
  }
  return combined;
}

std::string TextKeys::path_of(const NodeMatch& match) const { return reference_.scopes[match.scope].name_path; }

}  // namespace whence::annotation
