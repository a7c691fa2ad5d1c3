// CarriedToken: a node's name as a line of its doc_string, "whence: /encoder/layer.0/attention/self/query/MatMul".
// Optimisers drop metadata, but many keep doc_strings, so the line remains when they rename the node. If the module is
// not certain, the line contains the confidence: "whence: /encoder/Where (ancestor)".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "annotator/origin/confidence.h"

namespace whence::origin {

inline constexpr std::string_view token_mark = "whence: ";

struct CarriedToken {
  std::string_view name;
  Confidence confidence = Confidence::matched;  // also for exact: a reader only matched the node by its token
};

// Returns the token in the last line, if there is one.
std::optional<CarriedToken> token_in(std::string_view doc_string);

// Appends the token. `had_doc_string`: the node had the field, even if empty; the token is then on a new line.
std::string with_token(std::string_view doc_string, bool had_doc_string, const CarriedToken& token);

// Returns the text before with_token(); nullopt if the node had no doc_string.
inline std::optional<std::string_view> without_token(std::string_view doc_string) {
  const std::size_t line = doc_string.rfind('\n');
  return line == std::string_view::npos ? std::nullopt : std::optional(doc_string.substr(0, line));
}

}  // namespace whence::origin
