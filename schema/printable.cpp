#include "schema/printable.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace whence {
namespace {

// Returns the length of the multi-byte character at the start of `text`; 0 if it is invalid or a control character.
// Valid are shortest forms without surrogates, up to U+10FFFF (RFC 3629).
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  std::uint32_t point = byte(0) & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return 0;
    point = point << 6 | (byte(i) & 0x3fU);
  }
  const bool too_long = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
  const bool surrogate = point >= 0xd800 && point <= 0xdfff;
  return too_long || surrogate || point > 0x10ffff || point < 0xa0 ? 0 : length;
}

}  // namespace

bool is_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  for (std::size_t i = 0; i < text.size();) {
    std::uint64_t eight = 0;
    if (text.size() - i >= sizeof eight) {
      std::memcpy(&eight, text.data() + i, sizeof eight);
      if ((eight & 0x8080808080808080U) == 0) {
        i += sizeof eight;
        continue;
      }
    }
    const unsigned lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const int further = lead >= 0xc2 && lead <= 0xdf   ? 1
                        : lead >= 0xe0 && lead <= 0xef ? 2
                        : lead >= 0xf0 && lead <= 0xf4 ? 3
                                                       : 0;
    if (further == 0) return false;
    for (int k = 1; k <= further; ++k) {
      if ((byte(i + static_cast<std::size_t>(k)) & 0xc0U) != 0x80) return false;
    }
    const unsigned second = byte(i + 1);
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) || (lead == 0xf0 && second < 0x90) ||
        (lead == 0xf4 && second > 0x8f)) {
      return false;
    }
    i += static_cast<std::size_t>(further) + 1;
  }
  return true;
}

std::string printable(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = byte >= 0x80 ? character_length(text.substr(at)) : byte >= 0x20 && byte != 0x7f ? 1 : 0;
    if (length > 0) {
      out += text.substr(at, length);
    } else if (byte == '\n') {
      out += "\\n";
    } else {
      out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
    at += length > 0 ? length : 1;
  }
  return out;
}

std::string shown(std::string_view text) {
  constexpr std::size_t max_word = 500, front_size = 300, back_size = 100;
  const std::string complete_text = printable(text);
  const auto inside = [&](std::size_t at) {  // true inside a character of several bytes
    return at < complete_text.size() && (static_cast<unsigned char>(complete_text[at]) & 0xc0U) == 0x80U;
  };
  std::string out;
  for (std::size_t at = 0; at < complete_text.size();) {
    const std::size_t end = std::min(complete_text.find(' ', at), complete_text.size());
    if (end - at <= max_word) {
      out.append(complete_text, at, end - at);
    } else {
      std::size_t front_end = at + front_size, back = end - back_size;
      while (inside(front_end)) --front_end;
      while (inside(back)) ++back;
      out.append(complete_text, at, front_end - at);
      out += "[... " + std::to_string(back - front_end) + " bytes ...]";
      out.append(complete_text, back, end - back);
    }
    at = end;
    for (; at < complete_text.size() && complete_text[at] == ' '; ++at) out += ' ';
  }
  return out;
}

std::string escape_xml(std::string_view text) {
  const std::string clean = printable(text);
  std::string escaped;
  escaped.reserve(clean.size());
  for (std::size_t at = 0; at < clean.size(); ++at) {
    const char c = clean[at];
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (c == '"') {
      escaped += "&quot;";
    } else if (clean.compare(at, 3, "\xef\xbf\xbe") == 0 || clean.compare(at, 3, "\xef\xbf\xbf") == 0) {
      escaped += c == '\xef' && clean[at + 2] == '\xbe' ? "\\ufffe" : "\\uffff";  // XML has no U+FFFE and U+FFFF
      at += 2;
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace whence
