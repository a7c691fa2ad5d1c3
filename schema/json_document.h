// JsonDocument: parses JSON in place, for sidecars and torch.export archives. Strings without escapes are views of the
// text, and values take 16 bytes each in one array, so parsing a program of 100,000 operations costs little more than
// reading its bytes once. nlohmann's tree would allocate each of a table's millions of short rows separately.
//
// The text is untrusted: nesting is bounded, strings must be valid UTF-8, and objects with duplicate keys are refused
// because two readers could choose different values. Source: RFC 8259.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "schema/flat_map.h"

namespace whence {

class JsonDocument;

// large_integer: above INT64_MAX, up to UINT64_MAX.
enum class JsonKind : std::uint8_t { null, boolean, integer, large_integer, number, string, array, object };

struct JsonItem {
  JsonKind kind = JsonKind::null;
  bool flag = false;
  // Elements of an array, entries (key and value) of an object, or bytes of a string.
  std::uint32_t size = 0;
  union {
    std::int64_t integer = 0;  // for large_integer: the bits of the uint64
    double number;
    std::uint64_t first;  // array, object: index of the first item
    const char* text;     // string
  };
};
static_assert(sizeof(JsonItem) == 16, "a large program has millions of items");

// One value of a document. The document must outlive it. Except for size() and find(), call only accessors that fit the
// kind.
class JsonValue {
 public:
  JsonValue() = default;  // null

  JsonKind kind() const { return item_->kind; }
  bool is_null() const { return kind() == JsonKind::null; }
  bool is_boolean() const { return kind() == JsonKind::boolean; }
  bool is_integer() const { return kind() == JsonKind::integer || kind() == JsonKind::large_integer; }
  bool is_unsigned() const { return is_integer() && (kind() == JsonKind::large_integer || integer() >= 0); }
  bool is_number() const { return is_integer() || kind() == JsonKind::number; }
  bool is_string() const { return kind() == JsonKind::string; }
  bool is_array() const { return kind() == JsonKind::array; }
  bool is_object() const { return kind() == JsonKind::object; }

  bool flag() const { return item_->flag; }
  std::int64_t integer() const { return item_->integer; }
  std::uint64_t unsigned_integer() const { return static_cast<std::uint64_t>(item_->integer); }
  double floating() const;
  std::string_view text() const { return {item_->text, item_->size}; }

  // Elements of an array, members of an object; 0 for other kinds.
  std::size_t size() const { return is_array() || is_object() ? item_->size : 0; }
  JsonValue operator[](std::size_t i) const;                  // an element
  std::string_view key(std::size_t i) const;                  // the key of a member
  JsonValue member(std::size_t i) const;                      // the value of a member
  std::optional<JsonValue> find(std::string_view key) const;  // a member's value; nullopt for other kinds

  nlohmann::ordered_json to_json() const;
  const void* identity() const { return item_; }  // identifies the value in the document

 private:
  friend class JsonDocument;

  static constexpr JsonItem nothing{};

  JsonValue(const JsonDocument& document, const JsonItem& item) : document_(&document), item_(&item) {}

  const JsonDocument* document_ = nullptr;
  const JsonItem* item_ = &nothing;
};

class JsonDocument {
 public:
  // Why and where the text was refused. at_end: the text is truncated.
  struct Failure {
    std::size_t byte = 0;
    bool at_end = false, too_deep = false;
  };

  // Returns nullptr if the text is not JSON or has more than `deepest` levels. `text` must outlive the document.
  static std::unique_ptr<const JsonDocument> parse(std::string_view text, int deepest = 500,
                                                   Failure* failure = nullptr);

  JsonValue root() const { return {*this, root_}; }

 private:
  friend class JsonParser;
  friend class JsonValue;
  using Index = FlatMap<std::string_view, std::uint32_t>;

  JsonItem root_;
  std::vector<JsonItem> items_;
  std::deque<std::string> decoded_;                 // strings with escapes, decoded
  std::unordered_map<std::uint64_t, Index> large_;  // for large objects, by JsonItem::first: entries by key
};

}  // namespace whence
