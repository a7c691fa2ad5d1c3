// Patterns on the command line: globs over qualified names, regular expressions, and lists of both.
#include <gtest/gtest.h>

#include "annotator/text/patterns.h"
#include "schema/result.h"

namespace whence {

using text::Patterns;

namespace {

bool matches_path(const std::string& pattern, const std::string& path) {
  return Patterns::of_paths({pattern}).match(path);
}

struct Row {
  const char* pattern;
  const char* path;
  bool matches;
};

TEST(Patterns, GlobsCompareBySegments) {
  const Row rows[] = {
      {"encoder", "encoder", true},
      {"encoder", "encoder.layer", false},
      {"encoder.", "encoder", true},
      {"layer", "encoder.layer", false},
      {"layer", "layers", false},
      {"encoder.layer.*.attention", "encoder.layer.0.attention", true},
      {"encoder.layer.*.attention", "encoder.layer.0.1.attention", false},
      {"encoder.*", "encoder", false},
      {"**", "", true},
      {"", "", true},
      {"", "encoder", false},
      {".", "", false},
      {"a..b", "a.b", false},
      {"**", "a.b.c", true},
      {"**.query", "query", true},
      {"**.query", "a.b.query", true},
      {"**.query", "a.b.query.weight", false},
      {"a.**", "a", true},
      {"a.**.c", "a.c", true},
      {"a.**.c", "a.x.y.c", true},
      {"a.**.b.**.c", "a.b.c", true},
      {"a.**.b.**.c", "a.c.b", false},
      {"a.**b", "a.x.b", false},
      {"layer?", "layer1", true},
      {"layer?", "layer", false},
      {"layer?", "layer\xc3\xa9", true},
      {"*norm*", "LayerNorm", false},
      {"*Norm", "LayerNorm", true},
      {"l*y*r", "layer", true},
      {"*", "", false},
      {"*", "a", true},
      {"(a|b)+", "a", false},
      {"(a|b)+", "(a|b)+", true},
      {"\\d", "5", false},
  };
  for (const Row& row : rows)
    EXPECT_EQ(matches_path(row.pattern, row.path), row.matches) << row.pattern << " " << row.path;
}

TEST(Patterns, SetsMatchOneCharacterOfASegment) {
  const Row rows[] = {
      {"layer[0-3]", "layer2", true},
      {"layer[0-3]", "layer4", false},
      {"layer[!0-3]", "layer4", true},
      {"layer[!0-3]", "layer", false},
      {"a[!x]b", "a.b", false},   // a dot ends a segment
      {"a[+-9]b", "a.b", false},  // even if a range includes it
      {"a[+-9]b", "a-b", true},
      {"a[+-9]b", "a/b", true},
      {"[]a]", "]", true},
      {"[!]", "x", true},
      {"[^a]", "^", true},
      {"[^a]", "b", false},
      {"[b-a]", "a", false},  // an empty range
      {"[a-]", "-", true},
      {"[a", "[a", true},        // not closed
      {"[a.b]", "[a.b]", true},  // closed in another segment
      {"[\\d]", "5", false},
      {"a.x[0]", "a.x0", true},
      {"a.x[0]", "a.x[0]", true},  // a glob matches the name that is equal to it
      {"a.x[0]", "a.x[0].b", false},
      {"**.x[!0]", "a.x[!0]", false},
  };
  for (const Row& row : rows)
    EXPECT_EQ(matches_path(row.pattern, row.path), row.matches) << row.pattern << " " << row.path;
}

TEST(Patterns, ExpressionsMatchCompleteNames) {
  EXPECT_TRUE(matches_path("re:encoder\\.layer\\.\\d+", "encoder.layer.11"));
  EXPECT_FALSE(matches_path("re:layer", "encoder.layer"));
  EXPECT_FALSE(matches_path("re:encoder|head", "encoder.layer"));
  EXPECT_TRUE(matches_path("re:^encoder.*$", "encoder.layer"));
  EXPECT_TRUE(matches_path("re:", ""));
  EXPECT_TRUE(matches_path("re:(?i)ENCODER", "encoder"));
  EXPECT_TRUE(matches_path("re:caf[\xc3\xa9\xc3\xa8]", "caf\xc3\xa8"));
}

TEST(Patterns, ReturnsTheMatchingPatterns) {
  const Patterns paths = Patterns::of_paths({"**.query", "head", "re:.*\\.query", "encoder.**"});
  EXPECT_EQ(paths.matching("encoder.query"), (std::vector<std::size_t>{0, 2, 3}));
  EXPECT_EQ(paths.matching("decoder"), std::vector<std::size_t>());
  EXPECT_FALSE(Patterns::of_paths({}).match(""));
}

TEST(Patterns, NamesMatchThemselves) {
  const Patterns names = Patterns::of_names({"Conv", "Mat*", "re:Reduce.*"});
  EXPECT_TRUE(names.match("Conv"));
  EXPECT_FALSE(names.match("ConvTranspose"));
  EXPECT_FALSE(names.match("MatMul"));
  EXPECT_TRUE(names.match("ReduceMean"));
}

TEST(Patterns, InvalidUtf8IsMatchedInEscapedForm) {
  EXPECT_TRUE(matches_path("a.*", "a.\xff"));
  EXPECT_TRUE(matches_path("re:a\\.\\\\xff", "a.\xff"));
}

TEST(Patterns, InvalidPatternsAreRefused) {
  const std::pair<const char*, const char*> rows[] = {{"re:enc(oder", "missing ): enc(oder"},
                                                      {"re:a[z-b]", "invalid character class range: z-b"},
                                                      {"re:a**", "bad repetition operator: **"},
                                                      {"\xff", "invalid UTF-8"}};
  for (const auto& [pattern, reason] : rows) {
    try {
      Patterns::of_paths({"encoder", pattern});
      ADD_FAILURE() << pattern;
    } catch (const Error& error) {
      EXPECT_EQ(error.diagnostics().front().code, Code::usage);
      EXPECT_NE(error.diagnostics().front().message.find(reason), std::string::npos)
          << error.diagnostics().front().message;
    }
  }
}

TEST(Patterns, PatternsOverTheMemoryLimitAreRefused) {
  EXPECT_THROW(Patterns::of_names(std::vector<std::string>(20, "re:(a{1000}){900}")), Error);
}

TEST(Patterns, ManyStarsTakeLittleTime) {
  std::string pattern, path;
  for (int i = 0; i < 200; ++i) {
    pattern += "**.a.";
    path += "a.";
  }
  EXPECT_FALSE(matches_path(pattern.append("b"), path.append("a")));
  EXPECT_FALSE(matches_path(std::string(200, '*').append("b"), std::string(5000, 'a')));
}

TEST(Patterns, AnExpressionIsTheLastElementOfAList) {
  using List = std::vector<std::string>;
  EXPECT_EQ(text::split_patterns("a,b"), (List{"a", "b"}));
  EXPECT_EQ(text::split_patterns("re:a{1,2}"), (List{"re:a{1,2}"}));
  EXPECT_EQ(text::split_patterns("a,b,re:c{1,2},d"), (List{"a", "b", "re:c{1,2},d"}));
  EXPECT_EQ(text::split_patterns(""), List());
}

}  // namespace
}  // namespace whence
