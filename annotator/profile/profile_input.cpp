#include "annotator/profile/profile_input.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace whence::profile {
namespace {

constexpr std::string_view blanks = " \t\r\n";
const std::string run_again = "run the session again, and end it with end_profiling()";

std::optional<std::int64_t> scaled(double value, double factor) {
  const double amount = value * factor;
  if (!(amount >= 0 && amount < static_cast<double>(amount_limit))) return std::nullopt;
  return std::llround(amount);
}

}  // namespace

ProfileInput open_profile(const std::string& path) {
  ProfileInput input{MappedFile::open(path), {.file = path, .stage = "read"}, nullptr, std::nullopt, {}};
  std::string_view text = input.text();
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  input.first_line = text.substr(0, text.find('\n'));
  if (input.first_line.ends_with('\r')) input.first_line.remove_suffix(1);
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos || (text[first] != '[' && text[first] != '{')) return input;
  input.document = JsonDocument::parse(text);
  if (!input.document) {
    const char end = text[first] == '[' ? ']' : '}';
    const bool cut = text[text.find_last_not_of(blanks)] != end;
    throw Error(cut ? Code::truncated_file : Code::corrupt_file, "the profile is invalid JSON", run_again, input.place);
  }
  input.json = input.document->root();
  return input;
}

std::int64_t AmountSum::add(std::int64_t amount) {
  amount = std::max<std::int64_t>(0, amount);
  sum_ += amount;
  if (sum_ < amount_limit) return amount;
  corrupt_profile("the sum of the profile's entries overflows", run_again, place_);
}

std::string_view text_at(const JsonValue& object, std::string_view key) {
  const auto value = object.find(key);
  return value && value->is_string() ? value->text() : "";
}

std::optional<std::int64_t> amount_at(const JsonValue& object, std::string_view key, double factor) {
  const auto value = object.find(key);
  if (!value) return std::nullopt;
  if (value->is_string()) return amount_in(value->text(), factor);
  return value->is_number() ? scaled(value->floating(), factor) : std::nullopt;
}

std::optional<std::int64_t> amount_in(std::string_view decimal, double factor) {
  double value = 0;
  const char* const end = decimal.data() + decimal.size();
  const auto [read, error] = std::from_chars(decimal.data(), end, value);
  return error == std::errc() && read == end ? scaled(value, factor) : std::nullopt;
}

void corrupt_profile(const std::string& what, const std::string& remedy, const Place& place) {
  throw Error(Code::corrupt_file, what, remedy, place);
}

}  // namespace whence::profile
