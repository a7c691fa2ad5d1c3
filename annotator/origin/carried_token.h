// A node's name as a line of its doc_string: "whence: /encoder/layer.0/attention/self/query/MatMul". Optimisers drop
// metadata, but many leave doc_strings alone, so the line is still there when they gave the node another name. Where
// the module is less than certain the line says so: "whence: /encoder/Where (ancestor)".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "annotator/origin/confidence.h"

namespace whence::origin {

inline constexpr std::string_view token_mark = "whence: ";

struct CarriedToken {
  std::string_view name;
  Confidence confidence =
      Confidence::matched;  // `matched` stands for exact as well: who reads it found it by the token
};

// The last line, when it is one of ours.
std::optional<CarriedToken> token_in(std::string_view doc_string);

// `was_there`: the node had the field, perhaps empty; then the token follows on a line of its own.
std::string with_token(std::string_view doc_string, bool was_there, const CarriedToken& token);

// The text that was there before with_token(); none when there was nothing.
inline std::optional<std::string_view> without_token(std::string_view doc_string) {
  const std::size_t line = doc_string.rfind('\n');
  return line == std::string_view::npos ? std::nullopt : std::optional(doc_string.substr(0, line));
}

}  // namespace whence::origin
