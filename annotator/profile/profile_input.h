// ProfileInput: a file on its way to a reader, parsed as far as all readers of its form need it; and the checks of
// numbers that they have in common.
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
  std::optional<JsonValue> json;  // none: the file is not JSON
  std::string_view first_line;    // without its end

  std::string_view text() const { return file->text(); }
};

// Errors: missing_file, empty_file; truncated_file and corrupt_file for JSON that cannot be parsed.
ProfileInput open_profile(const std::string& path);

// Adds up amounts, so that no sum of some of them can be more than JSON's numbers hold.
class AmountSum {
 public:
  explicit AmountSum(const Place& place) : place_(place) {}
  std::int64_t add(std::int64_t amount);  // returns the amount, 0 for less; throws Error(corrupt_file)

 private:
  const Place& place_;
  std::int64_t sum_ = 0;
};

inline constexpr std::int64_t beyond_amounts = std::int64_t{1} << 53;  // JSON's numbers hold less; as time, 285 years

// The elements of an array; none of another kind.
inline auto elements(const JsonValue& list) {
  return std::views::iota(std::size_t{0}, list.is_array() ? list.size() : 0) |
         std::views::transform([list](std::size_t i) { return list[i]; });
}
// Those of the array under a key.
inline auto elements_at(const JsonValue& object, std::string_view key) {
  return elements(object.find(key).value_or(JsonValue()));
}
// The text under a key, "" when there is none.
std::string_view text_at(const JsonValue& object, std::string_view key);
// The number under a key, also one that is written as a text, times `factor`, rounded; none if it is no number that is
// at least 0 and can be added up.
std::optional<std::int64_t> amount_at(const JsonValue& object, std::string_view key, double factor = 1);
std::optional<std::int64_t> amount_in(std::string_view decimal, double factor = 1);

[[noreturn]] void corrupt_profile(const std::string& what, const std::string& remedy, const Place& place);

}  // namespace whence::profile
