// Json: a document read in place. Strings without escapes are views of the text, values stand in one array, so a
// program of 100,000 operations costs what it takes to look at its bytes once.
//
// The text is foreign: nesting is bounded, strings are valid UTF-8, and an object that has a key twice is
// refused, for two readers could take different ones. Source: RFC 8259.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "schema/flat_map.h"

namespace whence::pt2 {

struct JsonValue {
  enum class Kind : std::uint8_t { null, boolean, integer, number, string, array, object };
  Kind kind = Kind::null;
  bool flag = false;
  // The number of a container's elements, or entries, of which each is a key and a value; a string's bytes.
  std::uint32_t size = 0;
  union {
    std::int64_t integer = 0;
    double number;
    std::uint64_t first;  // a container: the index of its content
    const char* text;     // a string
  };

  std::string_view string() const { return {text, size}; }
};
static_assert(sizeof(JsonValue) == 16, "a large program is millions of these");

class Json {
 public:
  // nullptr for what is not JSON, nested deeper than `deepest`, or of 4 GiB. `text` must outlive the document.
  static std::unique_ptr<const Json> parse(std::string_view text);
  static constexpr int deepest = 500;

  const JsonValue& root() const { return root_; }
  const JsonValue& element(const JsonValue& list, std::size_t i) const { return values_[list.first + i]; }
  std::string_view key(const JsonValue& object, std::size_t i) const { return values_[object.first + 2 * i].string(); }
  const JsonValue& entry(const JsonValue& object, std::size_t i) const { return values_[object.first + 2 * i + 1]; }
  const JsonValue* find(const JsonValue& object, std::string_view key) const;  // nullptr when there is none

 private:
  friend class JsonParser;
  using Index = FlatMap<std::string_view, std::uint32_t>;

  JsonValue root_;
  std::vector<JsonValue> values_;
  std::deque<std::string> decoded_;                 // strings that had escapes
  std::unordered_map<std::uint64_t, Index> large_;  // entries by key of objects with many, by where they begin
};

}  // namespace whence::pt2
