// A node's name as a line of its doc_string: "whence: /encoder/layer.0/attention/self/query/MatMul". Optimisers drop
// metadata, but many leave doc_strings alone, so the line is still there when they gave the node another name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace whence {

struct NodeView;
struct NodeEdit;

// Adds the line to an edit; a node that has it from an earlier run keeps that.
void carry_name(const NodeView& node, NodeEdit& edit);

inline constexpr std::string_view token_mark = "whence: ";

// The last line, when it is one of ours.
inline std::optional<std::string_view> token_in(std::string_view doc_string) {
  const std::size_t line = doc_string.rfind('\n');
  const std::string_view last = line == std::string_view::npos ? doc_string : doc_string.substr(line + 1);
  if (!last.starts_with(token_mark)) return std::nullopt;
  return last.substr(token_mark.size());
}

// `was_there`: the node had the field, perhaps empty; then the token follows on a line of its own.
inline std::string with_token(std::string_view doc_string, bool was_there, std::string_view name) {
  std::string text(doc_string);
  if (was_there) text += '\n';
  return text.append(token_mark).append(name);
}

// What was there before with_token(); none when there was nothing.
inline std::optional<std::string_view> without_token(std::string_view doc_string) {
  const std::size_t line = doc_string.rfind('\n');
  return line == std::string_view::npos ? std::nullopt : std::optional(doc_string.substr(0, line));
}

}  // namespace whence
