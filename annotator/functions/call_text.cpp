#include "annotator/functions/call_text.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "annotator/functions/node_values.h"
#include "schema/json_text.h"
#include "schema/printable.h"
#include "schema/result.h"

namespace whence::functions {
namespace {

constexpr std::string_view place_holder = "{module}";

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

using Entries = std::map<std::string_view, std::string>;  // the first under each key

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

// Metadata may hold bytes that are not UTF-8, which JSON cannot: such a text is a mark and a character for each byte.
constexpr char bytes_mark = '\x01';

std::string keepable(std::string_view text) {
  if (!text.starts_with(bytes_mark) && is_utf8(text)) return std::string(text);
  std::string widened(1, bytes_mark);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) widened += static_cast<char>(0xc0 | (byte >> 6));
    widened += static_cast<char>(byte >= 0x80 ? 0x80 | (byte & 0x3f) : byte);
  }
  return widened;
}

std::string text_of_json(const std::string& text) {
  if (!text.starts_with(bytes_mark)) return text;
  std::string bytes;
  for (std::size_t i = 1; i < text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const bool two = lead >= 0xc0 && i + 1 < text.size();
    bytes += two ? static_cast<char>((lead << 6) | (static_cast<unsigned char>(text[++i]) & 0x3f)) : text[i];
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
    if (at < from || (at > 0 && (in_name(text[at - 1]) || text[at - 1] == '.'))) continue;
    if (end < text.size() && in_name(text[end])) continue;
    result.append(text.substr(from, at - from)).append(place_holder);
    from = end;
  }
  return result.append(text.substr(from));
}

void fill_template(std::string& text, std::string_view module) {
  if (text.find(place_holder) != std::string::npos) text = from_template(text, module);
}

bool fills_template(std::string_view text, std::string_view of_template, std::string_view module) {
  while (true) {
    const std::size_t at = of_template.find(place_holder);
    if (at == std::string_view::npos) return text == of_template;
    if (text.substr(0, at) != of_template.substr(0, at) || !text.substr(at).starts_with(module)) return false;
    text.remove_prefix(at + module.size());
    of_template.remove_prefix(at + place_holder.size());
  }
}

std::string from_template(std::string_view text, std::string_view module) {
  std::string result;
  std::size_t from = 0;
  for (std::size_t at = text.find(place_holder); at != std::string_view::npos; at = text.find(place_holder, from)) {
    result.append(text.substr(from, at - from)).append(module);
    from = at + place_holder.size();
  }
  return result.append(text.substr(from));
}

namespace {

// True if both have the same entries in the same order, as nearly all have.
bool is_same(const FunctionNode& from_function, const onnx_file::OnnxProperties& original) {
  const auto& entries = from_function.node->metadata_props();
  return std::ranges::equal(entries, original, [&](const auto& ours, const onnx_file::OnnxProperty& theirs) {
    return ours.key() == theirs.key && fills_template(theirs.value, ours.value(), from_function.module);
  });
}

}  // namespace

std::string differences(const std::vector<FunctionNode>& from_functions,
                        const std::vector<onnx_file::OnnxProperties>& originals) {
  if (std::ranges::equal(std::span(from_functions).first(originals.size()), originals, is_same)) return {};
  std::vector<Entries> have, want;
  std::set<std::string_view> keys;
  for (std::size_t i = 0; i < originals.size(); ++i) {
    have.push_back(entries(from_functions[i]));
    want.push_back(entries(originals[i]));
    for (const Entries* side : {&have.back(), &want.back()}) {
      for (const auto& [key, value] : *side) keys.insert(key);
    }
  }
  nlohmann::ordered_json result = nlohmann::ordered_json::object();
  for (const std::string_view key : keys) {
    nlohmann::ordered_json column = nlohmann::ordered_json::array();
    bool any = false;
    for (std::size_t i = 0; i < originals.size(); ++i) {
      const auto ours = have[i].find(key), theirs = want[i].find(key);
      if (theirs == want[i].end()) {
        column.push_back(ours == have[i].end() ? nlohmann::ordered_json() : nlohmann::ordered_json(false));
      } else if (ours == have[i].end() || ours->second != theirs->second) {
        column.push_back(keepable(theirs->second));
      } else {
        column.push_back(nullptr);
      }
      any |= !column.back().is_null();
    }
    if (any) result[keepable(key)] = std::move(column);
  }
  return result.empty() ? std::string() : json_text(result);
}

void apply_differences(const std::string& differences, const std::vector<onnx::NodeProto*>& nodes) {
  const auto all = nlohmann::json::parse(differences, nullptr, /*allow_exceptions=*/false);
  const bool fits = all.is_object() && std::ranges::all_of(all, [&](const nlohmann::json& column) {
                      return column.is_array() && column.size() == nodes.size();
                    });
  if (!fits) {
    throw Error(Code::corrupt_file, "what a call says of its nodes does not fit its function",
                "cut the functions from the original file again", {.stage = "inline"});
  }
  for (const auto& [written, column] : all.items()) {
    const std::string key = text_of_json(written);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (column[i].is_string()) set_metadata(*nodes[i], key, text_of_json(column[i].get<std::string>()));
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
