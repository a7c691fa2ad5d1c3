// Makes untrusted text safe for a terminal or for XML.
#pragma once

#include <string>
#include <string_view>

namespace whence {

// True for valid UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

// Escapes control characters (\x1b, \n), U+0080 to U+009F and invalid UTF-8, byte by byte.
std::string printable(std::string_view text);

// printable() with words of more than 500 bytes shortened to their beginning, the number of omitted bytes, and their
// end.
std::string shown(std::string_view text);

// printable() for XML 1.0 content and attribute values. Also escapes the characters that XML does not have.
std::string escape_xml(std::string_view text);

}  // namespace whence
