#include "schema/json_document.h"

#include <charconv>
#include <cstring>
#include <limits>

#include "schema/printable.h"
#include "schema/utf8.h"

namespace whence {
namespace {

constexpr std::size_t indexed_size = 16;  // objects with at least this many entries have an index

// Compares the first and last byte before calling memcmp: most keys of equal length differ in one of them.
bool equal_keys(std::string_view a, std::string_view b) {
  return a.size() == b.size() && (a.empty() || (a.front() == b.front() && a.back() == b.back() &&
                                                std::memcmp(a.data(), b.data(), a.size()) == 0));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Moves `at` to the first byte that ends plain text: a quote, a backslash, a control character, or the end. Reads eight
// bytes at a time because most of an archive's JSON is text. Returns true if all of the text is ASCII.
bool skip_plain(const char*& at, const char* end) {
  constexpr std::uint64_t ones = 0x0101010101010101U, high = 0x8080808080808080U;
  const auto holds_zero = [](std::uint64_t bytes) { return (bytes - ones) & ~bytes & high; };
  while (end - at >= 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, at, sizeof eight);
    const std::uint64_t control = (eight - ones * 0x20) & ~eight;
    if ((holds_zero(eight ^ ones * '"') | holds_zero(eight ^ ones * '\\') | ((control | eight) & high)) != 0) break;
    at += 8;
  }
  unsigned char seen = 0;
  while (at != end && *at != '"' && *at != '\\' && static_cast<unsigned char>(*at) >= 0x20) {
    seen |= static_cast<unsigned char>(*at++);
  }
  return seen < 0x80;
}

}  // namespace

// A recursive-descent parser. Each function moves `at_` past the text that it parsed and returns whether it is valid.
class JsonParser {
 public:
  JsonParser(std::string_view text, int deepest, JsonDocument& json)
      : begin_(text.data()), at_(begin_), end_(begin_ + text.size()), deepest_(deepest), json_(json) {}

  bool document() {
    if (!value(json_.root_, 0)) return false;
    skip_space();
    return at_ == end_;
  }

  JsonDocument::Failure failure() const { return {static_cast<std::size_t>(at_ - begin_), at_ == end_, too_deep_}; }

 private:
  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }

  bool take(char c) {
    skip_space();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  bool word(std::string_view expected) {
    const std::string_view found(at_, std::min<std::size_t>(end_ - at_, expected.size()));
    if (!expected.starts_with(found)) return false;
    at_ += found.size();
    return found.size() == expected.size();
  }

  bool value(JsonItem& to, int depth) {
    skip_space();
    if (at_ == end_) return false;
    switch (*at_) {
      case '{':
      case '[':
        if (depth == deepest_) return too_deep_ = true, false;
        return *at_ == '{' ? object(to, depth) : array(to, depth);
      case '"':
        return string(to);
      case 't':
      case 'f':
        to.kind = JsonKind::boolean;
        to.flag = *at_ == 't';
        return word(to.flag ? "true" : "false");
      case 'n':
        return word("null");
      default:
        return number(to);
    }
  }

  // Ends an array or object: moves its content from open_ to the document in one piece.
  bool close(JsonItem& to, JsonKind kind, std::size_t start) {
    if (open_.size() - start > std::numeric_limits<std::uint32_t>::max()) return false;
    to.kind = kind;
    to.first = json_.items_.size();
    to.size = static_cast<std::uint32_t>(open_.size() - start);
    json_.items_.insert(json_.items_.end(), open_.begin() + static_cast<std::ptrdiff_t>(start), open_.end());
    open_.resize(start);
    return true;
  }

  bool set_text(JsonItem& to, const char* text, std::size_t size, bool ascii) const {
    to.kind = JsonKind::string;
    to.text = text;
    to.size = static_cast<std::uint32_t>(size);
    return size <= std::numeric_limits<std::uint32_t>::max() && (ascii || is_utf8({text, size}));
  }

  bool array(JsonItem& to, int depth) {
    const std::size_t start = open_.size();
    ++at_;
    if (!take(']')) {
      do {
        JsonItem element;
        if (!value(element, depth + 1)) return false;
        open_.push_back(element);
      } while (take(','));
      if (!take(']')) return false;
    }
    return close(to, JsonKind::array, start);
  }

  bool object(JsonItem& to, int depth) {
    const std::size_t start = open_.size();
    ++at_;
    if (!take('}')) {
      do {
        JsonItem key, content;
        skip_space();
        if (at_ == end_ || *at_ != '"' || !string(key) || !take(':') || !value(content, depth + 1)) return false;
        open_.push_back(key);
        open_.push_back(content);
      } while (take(','));
      if (!take('}')) return false;
    }
    if (!close(to, JsonKind::object, start)) return false;
    to.size /= 2;
    return keys_differ(to);
  }

  std::string_view key(const JsonItem& object, std::size_t i) const {
    const JsonItem& item = json_.items_[object.first + 2 * i];
    return {item.text, item.size};
  }

  bool keys_differ(const JsonItem& object) {
    if (object.size < indexed_size) {
      for (std::size_t i = 1; i < object.size; ++i) {
        for (std::size_t k = 0; k < i; ++k) {
          if (equal_keys(key(object, i), key(object, k))) return false;
        }
      }
      return true;
    }
    JsonDocument::Index& index = json_.large_[object.first];
    index.reserve(object.size);
    for (std::uint32_t i = 0; i < object.size; ++i) {
      if (!index.emplace(key(object, i), i).second) return false;
    }
    return true;
  }

  bool string(JsonItem& to) {
    const char* const start = ++at_;
    const bool ascii = skip_plain(at_, end_);
    if (at_ == end_) return false;
    if (*at_ == '\\') return string_with_escapes(to, start, ascii);
    if (*at_ != '"') return false;
    return set_text(to, start, static_cast<std::size_t>(at_++ - start), ascii);
  }

  // `ascii`: whether the text from `start` to the first escape is ASCII. Escapes always produce valid UTF-8.
  bool string_with_escapes(JsonItem& to, const char* start, bool ascii) {
    std::string& text = json_.decoded_.emplace_back(start, at_);
    while (true) {
      const char* const plain = at_;
      ascii &= skip_plain(at_, end_);
      text.append(plain, at_);
      if (at_ == end_ || static_cast<unsigned char>(*at_) < 0x20) return false;
      if (*at_++ == '"') break;
      if (at_ == end_) return false;
      const char named = *at_++;
      if (!escape(named, text)) return false;
    }
    return set_text(to, text.data(), text.size(), ascii);
  }

  bool escape(char c, std::string& text) {
    constexpr std::string_view named = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
    if (const std::size_t found = named.find(c); found != std::string_view::npos) {
      text.push_back(meant[found]);
      return true;
    }
    if (c != 'u') return false;
    std::uint32_t code = 0, low = 0;
    if (!hex(code)) return false;
    if (code >= 0xd800 && code <= 0xdbff) {
      if (!word("\\u") || !hex(low) || low < 0xdc00 || low > 0xdfff) return false;
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code <= 0xdfff) {
      return false;
    }
    append_utf8(code, text);
    return true;
  }

  bool hex(std::uint32_t& code) {
    if (end_ - at_ < 4) return at_ = end_, false;
    const auto [last, error] = std::from_chars(at_, at_ + 4, code, 16);
    if (error != std::errc() || last != at_ + 4) return false;
    at_ += 4;
    return true;
  }

  bool number(JsonItem& to) {
    const char* last = at_;
    if (last != end_ && *last == '-') ++last;
    if (last == end_ || !is_digit(*last)) return at_ = last, false;
    if (*last == '0' && last + 1 != end_ && is_digit(last[1])) return false;
    while (last != end_ && is_digit(*last)) ++last;
    if (last != end_ && *last == '.' && (last + 1 == end_ || !is_digit(last[1]))) return at_ = last + 1, false;
    const bool is_integer = last == end_ || (*last != '.' && *last != 'e' && *last != 'E');
    if (is_integer && read(to, JsonKind::integer, to.integer, last)) return true;
    std::uint64_t large = 0;
    if (is_integer && *at_ != '-' && read(to, JsonKind::large_integer, large, last)) {
      to.integer = static_cast<std::int64_t>(large);
      return true;
    }
    if (!read(to, JsonKind::number, to.number, end_)) return false;  // also integers beyond 64 bits
    // The text ends within an exponent: "1e+".
    const bool cut = at_ != end_ && (*at_ == 'e' || *at_ == 'E') && end_ - at_ <= 2 && !is_digit(end_[-1]);
    return cut ? (at_ = end_, false) : true;
  }

  template <class Number>
  bool read(JsonItem& to, JsonKind kind, Number& number, const char* end) {
    to.kind = kind;
    const auto [stop, error] = std::from_chars(at_, end, number);
    if (error != std::errc()) return false;
    at_ = stop;
    return true;
  }

  const char* begin_;
  const char* at_;
  const char* const end_;
  int deepest_;
  bool too_deep_ = false;
  JsonDocument& json_;
  std::vector<JsonItem> open_;
};

std::unique_ptr<const JsonDocument> JsonDocument::parse(std::string_view text, int deepest, Failure* failure) {
  auto json = std::make_unique<JsonDocument>();
  // A value usually takes more bytes of text than this. Unused reserved memory is never touched.
  constexpr std::size_t min_value_size = 6;
  json->items_.reserve(text.size() / min_value_size);
  JsonParser parser(text, deepest, *json);
  if (parser.document()) return json;
  if (failure != nullptr) *failure = parser.failure();
  return nullptr;
}

double JsonValue::floating() const {
  if (kind() == JsonKind::large_integer) return static_cast<double>(unsigned_integer());
  return is_integer() ? static_cast<double>(integer()) : item_->number;
}

JsonValue JsonValue::operator[](std::size_t i) const { return {*document_, document_->items_[item_->first + i]}; }

std::string_view JsonValue::key(std::size_t i) const {
  return JsonValue(*document_, document_->items_[item_->first + 2 * i]).text();
}

JsonValue JsonValue::member(std::size_t i) const { return {*document_, document_->items_[item_->first + 2 * i + 1]}; }

std::optional<JsonValue> JsonValue::find(std::string_view name) const {
  if (is_object() && size() >= indexed_size) {
    const JsonDocument::Index& index = document_->large_.at(item_->first);
    const auto found = index.find(name);
    return found == index.end() ? std::nullopt : std::optional(member(found->second));
  }
  for (std::size_t i = 0; is_object() && i < size(); ++i) {
    if (equal_keys(key(i), name)) return member(i);
  }
  return std::nullopt;
}

nlohmann::ordered_json JsonValue::to_json() const {
  using Json = nlohmann::ordered_json;
  switch (kind()) {
    case JsonKind::null:
      return nullptr;
    case JsonKind::boolean:
      return flag();
    case JsonKind::integer:
      return is_unsigned() ? Json(unsigned_integer()) : Json(integer());
    case JsonKind::large_integer:
      return unsigned_integer();
    case JsonKind::number:
      return floating();
    case JsonKind::string:
      return std::string(text());
    case JsonKind::array: {
      Json array = Json::array();
      for (std::size_t i = 0; i < size(); ++i) array.push_back((*this)[i].to_json());
      return array;
    }
    case JsonKind::object: {
      Json object = Json::object();
      for (std::size_t i = 0; i < size(); ++i) object[std::string(key(i))] = member(i).to_json();
      return object;
    }
  }
  return nullptr;
}

}  // namespace whence
