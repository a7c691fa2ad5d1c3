#include "annotator/pt2/json.h"

#include <charconv>
#include <cstring>
#include <limits>

#include "schema/printable.h"
#include "schema/utf8.h"

namespace whence::pt2 {
namespace {

constexpr std::size_t many = 16;  // entries from which an object has an index

// Keys of one length mostly differ at their first or last byte, which costs less to see than a call does.
bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && (a.empty() || (a.front() == b.front() && a.back() == b.back() &&
                                                std::memcmp(a.data(), b.data(), a.size()) == 0));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Moves `at` to the first byte that ends plain text: a quote, a backslash, a control character, or the end. Eight bytes
// at a step; most of an archive's JSON is text. True when all of it was ASCII.
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

// Recursive descent; each function leaves `at_` behind what it read and says whether that was well-formed.
class JsonParser {
 public:
  JsonParser(std::string_view text, Json& json) : at_(text.data()), end_(text.data() + text.size()), json_(json) {}

  bool document() {
    if (!value(json_.root_, 0)) return false;
    skip_space();
    return at_ == end_;
  }

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
    if (static_cast<std::size_t>(end_ - at_) < expected.size()) return false;
    if (std::string_view(at_, expected.size()) != expected) return false;
    at_ += expected.size();
    return true;
  }

  bool value(JsonValue& to, int depth) {
    skip_space();
    if (at_ == end_ || depth > Json::deepest) return false;
    switch (*at_) {
      case '{':
        return object(to, depth);
      case '[':
        return array(to, depth);
      case '"':
        return string(to);
      case 't':
      case 'f':
        to.kind = JsonValue::Kind::boolean;
        to.flag = *at_ == 't';
        return word(to.flag ? "true" : "false");
      case 'n':
        return word("null");
      default:
        return number(to);
    }
  }

  // The content of an open value is collected in open_, and moved to its place in one piece when it closes.
  void close(JsonValue& to, JsonValue::Kind kind, std::size_t start) {
    to.kind = kind;
    to.first = json_.values_.size();
    to.size = static_cast<std::uint32_t>(open_.size() - start);
    json_.values_.insert(json_.values_.end(), open_.begin() + static_cast<std::ptrdiff_t>(start), open_.end());
    open_.resize(start);
  }

  bool array(JsonValue& to, int depth) {
    const std::size_t start = open_.size();
    ++at_;
    if (!take(']')) {
      do {
        JsonValue element;
        if (!value(element, depth + 1)) return false;
        open_.push_back(element);
      } while (take(','));
      if (!take(']')) return false;
    }
    close(to, JsonValue::Kind::array, start);
    return true;
  }

  bool object(JsonValue& to, int depth) {
    const std::size_t start = open_.size();
    ++at_;
    if (!take('}')) {
      do {
        JsonValue key, content;
        skip_space();
        if (at_ == end_ || *at_ != '"' || !string(key) || !take(':') || !value(content, depth + 1)) return false;
        open_.push_back(key);
        open_.push_back(content);
      } while (take(','));
      if (!take('}')) return false;
    }
    close(to, JsonValue::Kind::object, start);
    to.size /= 2;
    return keys_differ(to);
  }

  bool keys_differ(const JsonValue& object) {
    if (object.size < many) {
      for (std::size_t i = 1; i < object.size; ++i) {
        for (std::size_t k = 0; k < i; ++k) {
          if (same(json_.key(object, i), json_.key(object, k))) return false;
        }
      }
      return true;
    }
    Json::Index& index = json_.large_[object.first];
    index.reserve(object.size);
    for (std::uint32_t i = 0; i < object.size; ++i) {
      if (!index.emplace(json_.key(object, i), i).second) return false;
    }
    return true;
  }

  bool string(JsonValue& to) {
    const char* const start = ++at_;
    const bool ascii = skip_plain(at_, end_);
    if (at_ == end_) return false;
    to.kind = JsonValue::Kind::string;
    if (*at_ == '\\') return string_with_escapes(to, start, ascii);
    if (*at_ != '"') return false;
    to.text = start;
    to.size = static_cast<std::uint32_t>(at_ - start);
    ++at_;
    return ascii || is_utf8(to.string());
  }

  // `ascii`: of what stands between `start` and the first escape. Escapes themselves give well-formed UTF-8.
  bool string_with_escapes(JsonValue& to, const char* start, bool ascii) {
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
    to.text = text.data();
    to.size = static_cast<std::uint32_t>(text.size());
    return ascii || is_utf8(text);
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
    if (end_ - at_ < 4) return false;
    const auto [last, error] = std::from_chars(at_, at_ + 4, code, 16);
    if (error != std::errc() || last != at_ + 4) return false;
    at_ += 4;
    return true;
  }

  bool number(JsonValue& to) {
    const char* last = at_;
    if (last != end_ && *last == '-') ++last;
    if (last == end_ || !is_digit(*last)) return false;
    if (*last == '0' && last + 1 != end_ && is_digit(last[1])) return false;
    while (last != end_ && is_digit(*last)) ++last;
    if (last != end_ && *last == '.' && (last + 1 == end_ || !is_digit(last[1]))) return false;
    const bool is_integer = last == end_ || (*last != '.' && *last != 'e' && *last != 'E');
    if (is_integer) {
      to.kind = JsonValue::Kind::integer;
      const auto [read, error] = std::from_chars(at_, last, to.integer);
      if (error == std::errc()) return at_ = read, true;
    }
    to.kind = JsonValue::Kind::number;  // also integers beyond 64 bits
    const auto [read, error] = std::from_chars(at_, end_, to.number);
    if (error != std::errc() || read < last) return false;
    return at_ = read, true;
  }

  const char* at_;
  const char* const end_;
  Json& json_;
  std::vector<JsonValue> open_;
};

std::unique_ptr<const Json> Json::parse(std::string_view text) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) return nullptr;
  auto json = std::make_unique<Json>();
  constexpr std::size_t min_value_size =
      6;  // bytes of text for one value, usually more; what is not used is never touched
  json->values_.reserve(text.size() / min_value_size);
  return JsonParser(text, *json).document() ? std::move(json) : nullptr;
}

const JsonValue* Json::find(const JsonValue& object, std::string_view key) const {
  if (object.size >= many) {
    const Index& index = large_.at(object.first);
    const auto found = index.find(key);
    return found == index.end() ? nullptr : &entry(object, found->second);
  }
  for (std::size_t i = 0; i < object.size; ++i) {
    if (same(this->key(object, i), key)) return &entry(object, i);
  }
  return nullptr;
}

}  // namespace whence::pt2
