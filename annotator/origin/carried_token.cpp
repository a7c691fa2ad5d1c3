#include "annotator/origin/carried_token.h"

#include <array>

namespace whence::origin {
namespace {

constexpr std::array weaker_than_matched = {Confidence::inferred, Confidence::ancestor, Confidence::unattributed};

std::string suffix_of(Confidence confidence) { return " (" + std::string(name_of(confidence)) + ")"; }

}  // namespace

std::optional<CarriedToken> token_in(std::string_view doc_string) {
  const std::size_t line = doc_string.rfind('\n');
  std::string_view last = line == std::string_view::npos ? doc_string : doc_string.substr(line + 1);
  if (!last.starts_with(token_mark)) return std::nullopt;
  last.remove_prefix(token_mark.size());
  for (const Confidence confidence : weaker_than_matched) {
    const std::string suffix = suffix_of(confidence);
    if (last.ends_with(suffix)) return CarriedToken{last.substr(0, last.size() - suffix.size()), confidence};
  }
  return CarriedToken{last};
}

std::string with_token(std::string_view doc_string, bool had_doc_string, const CarriedToken& token) {
  std::string text(doc_string);
  if (had_doc_string) text += '\n';
  text.append(token_mark).append(token.name);
  return token.confidence > Confidence::matched ? text + suffix_of(token.confidence) : text;
}

}  // namespace whence::origin
