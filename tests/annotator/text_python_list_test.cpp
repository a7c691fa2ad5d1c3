// Parses Python lists in the form of repr(), which PyTorch's metadata keys contain.
#include <gtest/gtest.h>

#include "annotator/text/python_list.h"

namespace whence {

using text::parse_python_list;

namespace {

using Texts = std::vector<std::string>;

TEST(PythonList, ParsesReprText) {
  EXPECT_EQ(parse_python_list("[]"), Texts{});
  EXPECT_EQ(parse_python_list("['']"), Texts{""});
  EXPECT_EQ(parse_python_list("['', 'encoder.layer.0', 'add_1']"), (Texts{"", "encoder.layer.0", "add_1"}));
  EXPECT_EQ(parse_python_list("[\"it's\", 'a, b']"), (Texts{"it's", "a, b"}));
  EXPECT_EQ(parse_python_list(R"(['a\'b', 'c\\'])"), (Texts{"a'b", "c\\"}));
  EXPECT_EQ(parse_python_list(R"(['a\n\r\tb', '\x1b\x85', '\u2028\U0001f600'])"),
            (Texts{"a\n\r\tb", "\x1b\u0085", "\u2028\U0001f600"}));
}

TEST(PythonList, RefusesOtherText) {
  for (const char* text : {"", "[", "]", "['a'", "'a'", "[a]", "['a' 'b']", "['a]", "['a\\']", "['a',]x", "['\\x1']",
                           "['\\xg1']", "['\\U00110000']", "['\\']"}) {
    EXPECT_EQ(parse_python_list(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace whence
