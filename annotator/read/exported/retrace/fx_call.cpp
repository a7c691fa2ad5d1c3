#include "annotator/read/exported/retrace/fx_call.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace whence {

const FxCall::Given* FxCall::find(std::string_view name) const {
  const auto found = std::ranges::find(given, name, &Given::name);
  return found == given.end() ? nullptr : &*found;
}

std::string FxCall::text(std::string_view name, std::string otherwise) const {
  const Given* found = find(name);
  return found == nullptr ? std::move(otherwise) : found->text;
}

std::int64_t FxCall::integer(std::string_view name, std::int64_t otherwise) const {
  const Given* found = find(name);
  std::int64_t number = otherwise;
  if (found != nullptr) std::from_chars(found->text.data(), found->text.data() + found->text.size(), number);
  return number;
}

std::vector<std::int64_t> FxCall::integers(std::string_view name) const {
  std::vector<std::int64_t> numbers;
  const Given* found = find(name);
  if (found == nullptr) return numbers;
  const char* at = found->text.data();
  const char* const end = at + found->text.size();
  while (at < end) {
    std::int64_t number = 0;
    const auto [after, failed] = std::from_chars(at, end, number);
    if (failed == std::errc()) numbers.push_back(number);
    at = failed == std::errc() ? after : at + 1;
  }
  return numbers;
}

}  // namespace whence
