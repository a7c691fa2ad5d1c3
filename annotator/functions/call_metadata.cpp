#include "annotator/functions/call_metadata.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "annotator/functions/node_values.h"
#include "annotator/origin/keys/functions.h"
#include "schema/json_text.h"
#include "schema/printable.h"
#include "schema/result.h"

namespace whence::functions {

using origin::keys::module_placeholder;

namespace {

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

using Entries = std::map<std::string_view, std::string>;  // the first entry of each key

Entries entries(const FunctionNode& of) {
  Entries result;
  for (const onnx::StringStringEntryProto& entry : of.node->metadata_props()) {
    result.emplace(entry.key(), from_template(entry.value(), of.module));
  }
  return result;
}

Entries entries(const onnx_file::OnnxProperties& metadata) {
  Entries result;
  for (const onnx_file::OnnxProperty& entry : metadata) result.emplace(entry.key, entry.value);
  return result;
}

// JSON holds only UTF-8. Other metadata is written as this mark, followed by one character for each byte.
constexpr char bytes_mark = '\x01';

std::string json_safe(std::string_view text) {
  if (!text.starts_with(bytes_mark) && is_utf8(text)) return std::string(text);
  std::string widened(1, bytes_mark);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) widened += static_cast<char>(0xc0 | (byte >> 6));
    widened += static_cast<char>(byte >= 0x80 ? 0x80 | (byte & 0x3f) : byte);
  }
  return widened;
}

std::string from_json_safe(const std::string& text) {
  if (!text.starts_with(bytes_mark)) return text;
  std::string bytes;
  for (std::size_t i = 1; i < text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const bool is_two_bytes = lead >= 0xc0 && i + 1 < text.size();
    bytes += is_two_bytes ? static_cast<char>((lead << 6) | (static_cast<unsigned char>(text[++i]) & 0x3f)) : text[i];
  }
  return bytes;
}

void drop_metadata(onnx::NodeProto& node, std::string_view key) {
  for (int i = node.metadata_props_size() - 1; i >= 0; --i) {
    if (node.metadata_props(i).key() == key) node.mutable_metadata_props()->DeleteSubrange(i, 1);
  }
}

}  // namespace

std::string to_template(std::string_view text, std::string_view module) {
  if (module.empty()) return std::string(text);
  std::string result;
  std::size_t from = 0;
  for (std::size_t at = text.find(module); at != std::string_view::npos; at = text.find(module, at + 1)) {
    const std::size_t end = at + module.size();
    if (at < from || (at > 0 && (is_name_char(text[at - 1]) || text[at - 1] == '.'))) continue;
    if (end < text.size() && is_name_char(text[end])) continue;
    result.append(text.substr(from, at - from)).append(module_placeholder);
    from = end;
  }
  return result.append(text.substr(from));
}

void fill_template(std::string& text, std::string_view module) {
  if (text.find(module_placeholder) != std::string::npos) text = from_template(text, module);
}

bool fills_template(std::string_view text, std::string_view template_text, std::string_view module) {
  while (true) {
    const std::size_t at = template_text.find(module_placeholder);
    if (at == std::string_view::npos) return text == template_text;
    if (text.substr(0, at) != template_text.substr(0, at) || !text.substr(at).starts_with(module)) return false;
    text.remove_prefix(at + module.size());
    template_text.remove_prefix(at + module_placeholder.size());
  }
}

std::string from_template(std::string_view text, std::string_view module) {
  std::string result;
  std::size_t from = 0;
  for (std::size_t at = text.find(module_placeholder); at != std::string_view::npos;
       at = text.find(module_placeholder, from)) {
    result.append(text.substr(from, at - from)).append(module);
    from = at + module_placeholder.size();
  }
  return result.append(text.substr(from));
}

namespace {

// Returns true if both have the same entries in the same order, as nearly all nodes do.
bool has_same_entries(const FunctionNode& from_function, const onnx_file::OnnxProperties& original) {
  const auto& entries = from_function.node->metadata_props();
  return std::ranges::equal(entries, original,
                            [&](const auto& actual_entry, const onnx_file::OnnxProperty& expected_entry) {
                              return actual_entry.key() == expected_entry.key &&
                                     fills_template(expected_entry.value, actual_entry.value(), from_function.module);
                            });
}

}  // namespace

std::string differences(const std::vector<FunctionNode>& from_functions,
                        const std::vector<onnx_file::OnnxProperties>& originals) {
  if (std::ranges::equal(std::span(from_functions).first(originals.size()), originals, has_same_entries)) return {};
  std::vector<Entries> actual, expected;
  std::set<std::string_view> keys;
  for (std::size_t i = 0; i < originals.size(); ++i) {
    actual.push_back(entries(from_functions[i]));
    expected.push_back(entries(originals[i]));
    for (const Entries* side : {&actual.back(), &expected.back()}) {
      for (const auto& [key, value] : *side) keys.insert(key);
    }
  }
  nlohmann::ordered_json result = nlohmann::ordered_json::object();
  for (const std::string_view key : keys) {
    nlohmann::ordered_json column = nlohmann::ordered_json::array();
    bool any_difference = false;
    for (std::size_t i = 0; i < originals.size(); ++i) {
      const auto actual_entry = actual[i].find(key), expected_entry = expected[i].find(key);
      if (expected_entry == expected[i].end()) {
        column.push_back(actual_entry == actual[i].end() ? nlohmann::ordered_json() : nlohmann::ordered_json(false));
      } else if (actual_entry == actual[i].end() || actual_entry->second != expected_entry->second) {
        column.push_back(json_safe(expected_entry->second));
      } else {
        column.push_back(nullptr);
      }
      any_difference |= !column.back().is_null();
    }
    if (any_difference) result[json_safe(key)] = std::move(column);
  }
  return result.empty() ? std::string() : json_text(result);
}

void apply_differences(const std::string& differences, const std::vector<onnx::NodeProto*>& nodes) {
  const auto all = nlohmann::json::parse(differences, nullptr, /*allow_exceptions=*/false);
  const bool fits = all.is_object() && std::ranges::all_of(all, [&](const nlohmann::json& column) {
                      return column.is_array() && column.size() == nodes.size();
                    });
  if (!fits) {
    throw Error(Code::corrupt_file, "the metadata stored on a call does not fit the nodes of its function",
                "run `whence functions` on the original file again", {.stage = "inline"});
  }
  for (const auto& [json_key, column] : all.items()) {
    const std::string key = from_json_safe(json_key);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (column[i].is_string()) set_metadata(*nodes[i], key, from_json_safe(column[i].get<std::string>()));
      if (column[i].is_boolean()) drop_metadata(*nodes[i], key);
    }
  }
}

void for_each_node(onnx::NodeProto& node, const std::function<void(onnx::NodeProto&)>& visit) {
  visit(node);
  for_each_body(node, [&](onnx::GraphProto& body) {
    for (onnx::NodeProto& inner : *body.mutable_node()) for_each_node(inner, visit);
  });
}
void for_each_node(const onnx::NodeProto& node, const std::function<void(const onnx::NodeProto&)>& visit) {
  visit(node);
  for_each_body(node, [&](const onnx::GraphProto& body) {
    for (const onnx::NodeProto& inner : body.node()) for_each_node(inner, visit);
  });
}

void set_metadata(onnx::NodeProto& node, std::string_view key, const std::string& value) {
  for (onnx::StringStringEntryProto& entry : *node.mutable_metadata_props()) {
    if (entry.key() == key) return entry.set_value(value);
  }
  onnx::StringStringEntryProto& entry = *node.add_metadata_props();
  entry.set_key(std::string(key));
  entry.set_value(value);
}

}  // namespace whence::functions
