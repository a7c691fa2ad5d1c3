// ProfileInput: an opened profile, parsed if it is JSON; and the checks of numbers that all readers share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>

#include "annotator/profile/runtime_profile.h"
#include "schema/files/files.h"
#include "schema/json_document.h"
#include "schema/result.h"

namespace whence::profile {

struct ProfileInput {
  std::shared_ptr<MappedFile> file;
  Place place;
  std::unique_ptr<const JsonDocument> document;
  std::optional<JsonValue> json;  // nullopt: the file is not JSON
  std::string_view first_line;    // without the line end

  std::string_view text() const { return file->text(); }
};

// Errors: missing_file, empty_file; truncated_file and corrupt_file for JSON that cannot be parsed.
ProfileInput open_profile(const std::string& path);

// Checks that the sum of all amounts fits into JSON's numbers.
class AmountSum {
 public:
  explicit AmountSum(const Place& place) : place_(place) {}
  std::int64_t add(std::int64_t amount);  // returns max(amount, 0); throws Error(corrupt_file) on overflow

 private:
  const Place& place_;
  std::int64_t sum_ = 0;
};

inline constexpr std::int64_t amount_limit = std::int64_t{1} << 53;  // exact JSON integers are below; 285 years

// Returns the elements of an array; nothing for other values.
inline auto elements(const JsonValue& list) {
  return std::views::iota(std::size_t{0}, list.is_array() ? list.size() : 0) |
         std::views::transform([list](std::size_t i) { return list[i]; });
}
// Returns the elements of the array under a key.
inline auto elements_at(const JsonValue& object, std::string_view key) {
  return elements(object.find(key).value_or(JsonValue()));
}
// Returns the string under a key, "" if there is none.
std::string_view text_at(const JsonValue& object, std::string_view key);
// Returns the number under a key, also if it is a string, times `factor` and rounded; nullopt if it is not a number
// from 0 to below amount_limit.
std::optional<std::int64_t> amount_at(const JsonValue& object, std::string_view key, double factor = 1);
std::optional<std::int64_t> amount_in(std::string_view decimal, double factor = 1);

[[noreturn]] void corrupt_profile(const std::string& what, const std::string& remedy, const Place& place);

}  // namespace whence::profile
