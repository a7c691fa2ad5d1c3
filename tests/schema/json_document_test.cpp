// A JsonDocument holds what nlohmann's tree of the same text holds, and refuses what that refuses, in the same words.
#include "schema/sidecar/json_document.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

namespace whence {
namespace {

std::string words_of(const auto& parse) {
  try {
    parse();
    return "";
  } catch (const Json::exception& error) {
    return error.what();
  }
}

void expect_same(const std::string& text) {
  Json expected;
  const std::string refused = words_of([&] { expected = Json::parse(text); });
  EXPECT_EQ(words_of([&] { JsonDocument read{std::string_view(text)}; }), refused) << text;
  if (!refused.empty()) return;
  const JsonDocument document{std::string_view(text)};
  EXPECT_EQ(document.root().to_json(), expected) << text;
  EXPECT_EQ(document.root().to_json().dump(), expected.dump()) << text;  // keys in the same order
}

TEST(JsonDocument, HoldsEveryKindOfValue) {
  for (const char* text : {"null", "true", "false", "0", "-1", "18446744073709551615", "-9223372036854775808", "1.5",
                           "-0.0", "1e300", "\"\"", "\"plain\"", R"("\u00e9\ud83d\ude00\n\"")", "[]", "{}",
                           "[[],[[]],{}]", R"({"a":{"b":[1,"x",null]},"c":2})", " [ 1 , 2 ] ", "\xEF\xBB\xBF[1]"}) {
    expect_same(text);
  }
}

TEST(JsonDocument, TheLastOfEqualKeysCountsAtThePlaceOfTheFirst) {
  for (const char* text : {R"({"a":1,"b":2,"a":3})", R"({"a":[1,2],"a":{"x":1,"x":[]},"b":0})", R"({"":1,"":2})",
                           R"([{"a":1,"b":1,"b":2,"a":4,"c":5,"b":6}])"}) {
    expect_same(text);
  }
  const JsonDocument document(R"({"a":1,"b":2,"a":3})");
  EXPECT_EQ(document.root().size(), 2U);
  EXPECT_EQ(document.root().find("a")->integer(), 3);
}

TEST(JsonDocument, RefusesTheSameTextsInTheSameWords) {
  for (const char* text : {"", "[", "[1,", "{\"a\"", "{\"a\":", "{a:1}", "[1]]", "[01]", "\"\\x\"", "\"\x80\"",
                           "[1e999]", "tru", "[1 2]", "{\"a\" 1}", "nan"}) {
    expect_same(text);
  }
}

TEST(JsonDocument, HoldsAndRefusesTheSameAsNlohmannWhereBytesChanged) {
  const std::string good =
      R"({"strings":["a","b\n"],"t":{"columns":["x","y"],"rows":[[1,-2.5e3],[null,{"value":7}]]},"t":[]})";
  std::mt19937 generator(7);
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (int edits = 1 + static_cast<int>(generator() % 3); edits > 0; --edits) {
      text[generator() % text.size()] = R"({}[]",:0-1.e\ntu)"[generator() % 17];
    }
    expect_same(text);
  }
}

TEST(JsonDocument, AnswersOnlyWhatTheTypeHas) {
  const JsonDocument document(R"([7,-7,2.5,"seven",true])");
  const JsonValue list = document.root();
  EXPECT_TRUE(list[0].is_unsigned() && list[0].is_integer() && list[0].is_number());
  EXPECT_TRUE(!list[1].is_unsigned() && list[1].is_integer());
  EXPECT_TRUE(!list[2].is_integer() && list[2].is_number());
  EXPECT_EQ(list[0].floating() + list[1].floating() + list[2].floating(), 2.5);
  EXPECT_EQ(list[3].text(), "seven");
  EXPECT_EQ(list[3].size(), 0U);
  EXPECT_TRUE(list[4].flag());
  EXPECT_FALSE(list.find("seven"));
  EXPECT_TRUE(JsonValue().is_null());
}

}  // namespace
}  // namespace whence
