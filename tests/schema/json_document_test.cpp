// JsonDocument parses text like nlohmann::json does, but also refuses repeated keys.
#include "schema/json_document.h"

#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace whence {
namespace {

using Json = nlohmann::ordered_json;

bool has_repeated_key(const std::string& text) {
  bool repeated = false;
  std::vector<std::set<std::string>> keys;
  const auto callback = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) repeated |= !keys.back().insert(value.get<std::string>()).second;
    return true;
  };
  return !Json::parse(text, callback, /*allow_exceptions=*/false).is_discarded() && repeated;
}

void expect_agreement(const std::string& text) {
  const Json expected = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto document = JsonDocument::parse(text);
  EXPECT_EQ(document == nullptr, expected.is_discarded() || has_repeated_key(text)) << text;
  if (document == nullptr || expected.is_discarded()) return;
  EXPECT_EQ(document->root().to_json(), expected) << text;
  EXPECT_EQ(document->root().to_json().dump(), expected.dump()) << text;  // compares the order of keys
}

JsonDocument::Failure failure_of(const std::string& text, int max_depth = 500) {
  JsonDocument::Failure failure;
  EXPECT_EQ(JsonDocument::parse(text, max_depth, &failure), nullptr) << text;
  return failure;
}

TEST(JsonDocument, ParsesEveryKindOfValue) {
  for (const char* text : {"null",
                           "true",
                           "false",
                           "0",
                           "-1",
                           "18446744073709551615",
                           "18446744073709551616",
                           "-9223372036854775808",
                           "-9223372036854775809",
                           "1.5",
                           "-0.0",
                           "1e300",
                           "1E+2",
                           "\"\"",
                           "\"plain\"",
                           R"("\u00e9\ud83d\ude00\n\"")",
                           "[]",
                           "{}",
                           "[[],[[]],{}]",
                           R"({"a":{"b":[1,"x",null]},"c":2})",
                           " [ 1 , 2 ] "}) {
    expect_agreement(text);
  }
}

TEST(JsonDocument, RefusesInvalidJson) {
  for (const char* text : {"", "[", "[1,", "{\"a\"", "{\"a\":", "{a:1}", "[1]]", "[01]", "\"\\x\"", "\"\x80\"",
                           "[1e999]", "tru", "[1 2]", "{\"a\" 1}", "nan", "-", "1.", "1e", "\"\\ud800\""}) {
    EXPECT_EQ(JsonDocument::parse(text), nullptr) << text;
    expect_agreement(text);
  }
}

TEST(JsonDocument, RefusesARepeatedKey) {
  EXPECT_EQ(JsonDocument::parse(R"({"a":1,"b":2,"a":3})"), nullptr);
  std::string members = "{";
  for (int i = 0; i < 40; ++i) members += "\"k" + std::to_string(i) + "\":1,";
  EXPECT_EQ(JsonDocument::parse(members + "\"k7\":2}"), nullptr);
  const std::string unique = members + "\"k40\":2}";
  EXPECT_EQ(JsonDocument::parse(unique)->root().find("k40")->integer(), 2);
}

TEST(JsonDocument, AgreesWithNlohmannOnRandomChanges) {
  const std::string valid =
      R"({"strings":["a","b\n"],"t":{"columns":["x","y"],"rows":[[1,-2.5e3],[null,{"value":7}]]},"u":[]})";
  std::mt19937 generator(7);
  for (int i = 0; i < 3000; ++i) {
    std::string text = valid;
    for (int edits = 1 + static_cast<int>(generator() % 3); edits > 0; --edits) {
      text[generator() % text.size()] = R"({}[]",:0-1.e\ntu)"[generator() % 17];
    }
    expect_agreement(text);
  }
}

TEST(JsonDocument, ReportsATruncatedText) {
  const std::string text = R"([ {"a\u00e9\n": -1.25e+3, "b": true}, null, "\ud83d\ude00", [false, 12]])";
  ASSERT_NE(JsonDocument::parse(text), nullptr);
  for (std::size_t size = 0; size < text.size(); ++size) EXPECT_TRUE(failure_of(text.substr(0, size)).at_end) << size;
  EXPECT_FALSE(failure_of(R"({"a" 1})").at_end);
  EXPECT_EQ(failure_of(R"({"a" 1})").byte, 5U);
}

TEST(JsonDocument, LimitsItsDepth) {
  EXPECT_NE(JsonDocument::parse("[[[1]]]", 3), nullptr);
  EXPECT_TRUE(failure_of("[[[[1]]]]", 3).too_deep);
  EXPECT_TRUE(failure_of(std::string(1'000'000, '[')).too_deep);
}

TEST(JsonDocument, QueriesDependOnTheKind) {
  const auto document = JsonDocument::parse(R"([7,-7,2.5,"seven",true,18446744073709551615])");
  const JsonValue list = document->root();
  EXPECT_TRUE(list[0].is_unsigned() && list[0].is_integer() && list[0].is_number());
  EXPECT_TRUE(!list[1].is_unsigned() && list[1].is_integer());
  EXPECT_TRUE(!list[2].is_integer() && list[2].is_number());
  EXPECT_EQ(list[0].floating() + list[1].floating() + list[2].floating(), 2.5);
  EXPECT_EQ(list[3].text(), "seven");
  EXPECT_EQ(list[3].size(), 0U);
  EXPECT_TRUE(list[4].flag());
  EXPECT_EQ(list[5].unsigned_integer(), UINT64_MAX);
  EXPECT_FALSE(list.find("seven"));
  EXPECT_TRUE(JsonValue().is_null());
}

}  // namespace
}  // namespace whence
