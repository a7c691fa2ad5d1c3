// Parses nested Python values in the form of repr(), which ExecuTorch's tables contain.
#include <gtest/gtest.h>

#include "annotator/text/python_literal.h"

namespace whence {

using text::parse_python_literal;
using Kind = text::PythonLiteral::Kind;

namespace {

TEST(PythonLiteral, ParsesNestedValues) {
  const auto value = parse_python_literal("{'a': ('x', \"it's\"), 'b': None, 3: [0.5, -2e-05]}");
  ASSERT_TRUE(value);
  ASSERT_EQ(value->kind, Kind::dict);
  ASSERT_EQ(value->keys.size(), 3u);
  EXPECT_EQ(value->keys[0].text, "a");
  EXPECT_EQ(value->keys[2].kind, Kind::word);
  ASSERT_EQ(value->items[0].items.size(), 2u);
  EXPECT_EQ(value->items[0].items[1].text, "it's");
  EXPECT_EQ(value->items[1].text, "None");
  EXPECT_EQ(value->items[2].items[1].text, "-2e-05");
}

TEST(PythonLiteral, ParsesEmptyAndTrailingForms) {
  EXPECT_EQ(parse_python_literal("{}")->kind, Kind::dict);
  EXPECT_EQ(parse_python_literal("()")->kind, Kind::sequence);
  EXPECT_EQ(parse_python_literal("('a',)")->items.size(), 1u);
  EXPECT_EQ(parse_python_literal("[nan]")->items[0].text, "nan");
}

TEST(PythonLiteral, RefusesOtherText) {
  for (const char* text : {"", "[", "{'a'}", "{'a': }", "['a' 'b']", "[1 2]", "[1]]", "('a'", "{'a': 1", "'a", ":"}) {
    EXPECT_FALSE(parse_python_literal(text)) << text;
  }
  EXPECT_TRUE(parse_python_literal(std::string(30, '[') + std::string(30, ']')));
  EXPECT_FALSE(parse_python_literal(std::string(40, '[') + std::string(40, ']')));
}

}  // namespace
}  // namespace whence
