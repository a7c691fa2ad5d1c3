#include "annotator/annotation/merged_entries.h"

#include <charconv>
#include <optional>
#include <set>

namespace whence::annotation {

using onnx_file::PlacedEntry;

namespace {

std::optional<std::size_t> take_number(std::string_view& text, char end) {
  std::size_t number = 0;
  const auto [next, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || next == text.data() + text.size() || *next != end) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(next - text.data()) + 1);
  return number;
}

}  // namespace

std::vector<PlacedEntry> repeated_entries(const onnx_file::NodeView& node) { return conflicting_entries(node, ""); }

std::vector<PlacedEntry> conflicting_entries(const onnx_file::NodeView& node, std::string_view key) {
  std::vector<PlacedEntry> found;
  if (!node.regular_metadata) return found;
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < node.metadata.size(); ++i) {
    const onnx_file::OnnxProperty& entry = node.metadata[i];
    const bool repeated = !seen.insert(entry.key).second;
    if (repeated || (!key.empty() && entry.key == key)) {
      found.push_back({i, std::string(entry.key), std::string(entry.value)});
    }
  }
  return found;
}

std::string to_text(const std::vector<PlacedEntry>& entries) {
  std::string text;
  for (const PlacedEntry& entry : entries) {
    text += std::to_string(entry.position) + "," + std::to_string(entry.key.size()) + "," +
            std::to_string(entry.value.size()) + ";" + entry.key + entry.value;
  }
  return text;
}

std::vector<PlacedEntry> parse_merged_entries(std::string_view text) {
  std::vector<PlacedEntry> entries;
  while (!text.empty()) {
    const auto position = take_number(text, ',');
    const auto key = position ? take_number(text, ',') : std::nullopt;
    const auto value = key ? take_number(text, ';') : std::nullopt;
    if (!value || *key > text.size() || *value > text.size() - *key) return {};
    entries.push_back({*position, std::string(text.substr(0, *key)), std::string(text.substr(*key, *value))});
    text.remove_prefix(*key + *value);
  }
  return entries;
}

}  // namespace whence::annotation
