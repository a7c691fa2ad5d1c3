// JsonDocument: a JSON text as one list of its values, 16 bytes each, from which the tables of a sidecar are read.
// Those of a large model have millions of short rows, and in nlohmann's tree each of them is allocated and freed by
// itself.
//
// A key that an object has twice counts with its last value, at its first place, as in nlohmann's ordered_json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whence {

using Json = nlohmann::ordered_json;
class JsonDocument;

struct JsonItem {
  Json::value_t type = Json::value_t::null;
  std::uint32_t count = 0;  // bytes of a string, elements, members
  // A number's bits, or where the first byte of a string, element or key stands; a key is followed by its value.
  std::uint64_t content = 0;
};

// One value of a document, which must outlive it. What is asked of it must fit its type.
class JsonValue {
 public:
  JsonValue() = default;  // null

  Json::value_t type() const { return item_->type; }
  bool is_null() const { return type() == Json::value_t::null; }
  bool is_boolean() const { return type() == Json::value_t::boolean; }
  bool is_unsigned() const { return type() == Json::value_t::number_unsigned; }
  bool is_integer() const { return is_unsigned() || type() == Json::value_t::number_integer; }
  bool is_number() const { return is_integer() || type() == Json::value_t::number_float; }
  bool is_string() const { return type() == Json::value_t::string; }
  bool is_array() const { return type() == Json::value_t::array; }
  bool is_object() const { return type() == Json::value_t::object; }

  bool flag() const { return item_->content != 0; }
  std::int64_t integer() const { return static_cast<std::int64_t>(item_->content); }
  std::uint64_t unsigned_integer() const { return item_->content; }
  double floating() const;
  std::string_view text() const;

  // Elements of an array, members of an object; 0 for other types.
  std::size_t size() const { return is_array() || is_object() ? item_->count : 0; }
  JsonValue operator[](std::size_t i) const;  // an element
  std::string_view key(std::size_t i) const;  // the key of a member; member() is its value
  JsonValue member(std::size_t i) const;
  std::optional<JsonValue> find(std::string_view key) const;  // a member's value; nothing in other types

  Json to_json() const;

 private:
  friend class JsonDocument;

  static constexpr JsonItem nothing{};

  JsonValue(const JsonDocument& document, const JsonItem& item) : document_(&document), item_(&item) {}

  const JsonDocument* document_ = nullptr;
  const JsonItem* item_ = &nothing;
};

class JsonDocument {
 public:
  // Throws what Json::parse() throws.
  explicit JsonDocument(std::string_view text);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  JsonValue root() const { return {*this, root_}; }

 private:
  friend class JsonValue;
  class Handler;

  std::vector<JsonItem> items_;  // elements of an array stand side by side
  std::string texts_;
  JsonItem root_;
};

}  // namespace whence
