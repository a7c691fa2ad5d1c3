// Writes values like Python's repr().
#include <limits>

#include <gtest/gtest.h>

#include "annotator/origin/python_text.h"

namespace whence {

using origin::python_repr;

namespace {

TEST(PythonText, WritesFloatsLikePython) {
  const std::pair<double, const char*> cases[] = {
      {0, "0.0"},       {1, "1.0"},           {-2.5, "-2.5"},     {0.1, "0.1"},
      {1e-12, "1e-12"}, {0.0001, "0.0001"},   {0.00001, "1e-05"}, {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},  {1.5e300, "1.5e+300"}};
  for (const auto& [number, text] : cases) EXPECT_EQ(origin::python_float(number), text);
  EXPECT_EQ(origin::python_float(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(PythonText, QuotesStringsLikePython) {
  EXPECT_EQ(python_repr(std::string_view("a.b")), "'a.b'");
  EXPECT_EQ(python_repr(std::string_view("it's")), "\"it's\"");
  EXPECT_EQ(python_repr(std::string_view("'\"")), "'\\'\"'");
  EXPECT_EQ(python_repr(std::string_view("a\\\n\x01")), "'a\\\\\\n\\x01'");
  EXPECT_EQ(python_repr(std::vector<std::string>{"", "a"}), "['', 'a']");
}

}  // namespace
}  // namespace whence
