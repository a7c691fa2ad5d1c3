// Control characters and invalid UTF-8 (RFC 3629) are escaped in text for terminals.
#include "schema/printable.h"

#include <gtest/gtest.h>

namespace whence {
namespace {

TEST(Printable, EscapesControlCharacters) { EXPECT_EQ(printable("a\033[2J\n\x7f"), "a\\x1b[2J\\n\\x7f"); }

TEST(Printable, EscapesC1Controls) { EXPECT_EQ(printable("\xc2\x9bJ"), "\\xc2\\x9bJ"); }

TEST(Printable, DoesNotChangeValidCharacters) {
  for (const char* text : {"größe", "層", "\xf0\x9f\x99\x82", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesInvalidUtf8) {
  const std::pair<std::string, std::string> rows[] = {
      {"a\xff"
       "b",
       "a\\xffb"},                                   // never part of a sequence
      {"\xc3", "\\xc3"},                             // truncated
      {"\xc3(", "\\xc3("},                           // without a continuation byte
      {"\xc0\xaf", "\\xc0\\xaf"},                    // overlong
      {"\xe0\x80\x80", "\\xe0\\x80\\x80"},           // overlong
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // a surrogate
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // beyond U+10FFFF
  };
  for (const auto& [text, expected] : rows) EXPECT_EQ(printable(text), expected);
}

TEST(Shown, ShortensLongWordsInTheMiddle) {
  EXPECT_EQ(shown("no converter: \x1b[1m at  layers.0"), "no converter: \\x1b[1m at  layers.0");
  EXPECT_EQ(shown(std::string(500, 'a')), std::string(500, 'a'));
  EXPECT_EQ(shown("is " + std::string(1000000, 'a') + " there"),
            "is " + std::string(300, 'a') + "[... 999600 bytes ...]" + std::string(100, 'a') + " there");
  std::string letters;
  for (int i = 0; i < 501; ++i) letters += "\u00e9";  // a character is never split
  EXPECT_EQ(printable(shown("x" + letters)), shown("x" + letters));
}

TEST(EscapeXml, EscapesMarkup) { EXPECT_EQ(escape_xml("<a b=\"c\">&"), "&lt;a b=&quot;c&quot;&gt;&amp;"); }

TEST(EscapeXml, EscapesCharactersThatXmlExcludes) {
  EXPECT_EQ(escape_xml(std::string_view("a\0b\x1b", 4)), "a\\x00b\\x1b");
  EXPECT_EQ(escape_xml("\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd"), "\\ufffe\\uffff\xef\xbf\xbd");
}

}  // namespace
}  // namespace whence
