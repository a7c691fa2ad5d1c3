// Text from files of unknown origin, as it may be sent to a terminal or put into XML.
#pragma once

#include <string>
#include <string_view>

namespace whence {

// True of well-formed text as RFC 3629 says: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

// Control characters as \x1b and \n, those of U+0080 to U+009F and bytes that are not UTF-8 likewise, byte by byte.
std::string printable(std::string_view text);

// printable() for people: of a word that is longer than any name should be, its beginning, its end and how much is left
// out.
std::string shown(std::string_view text);

// printable() for XML 1.0, as content or as an attribute's value; what XML has no character for is an escape, too.
std::string escape_xml(std::string_view text);

}  // namespace whence
