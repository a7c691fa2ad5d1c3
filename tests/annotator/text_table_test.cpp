// Writes tables and numbers as text for a terminal.
#include <gtest/gtest.h>

#include "annotator/text/table.h"

namespace whence {

using text::Align;
using text::grouped;
using text::percent;
using text::Table;

namespace {

TEST(Table, AlignsColumnsWithoutTrailingBlanks) {
  Table table({}, {Align::left, Align::right, Align::left});
  table.header({"module", "nodes", "type"});
  table.row({"a", "1,000", ""});
  table.row({"bé", "7"});
  EXPECT_EQ(table.text(),
            "module  nodes  type\n"
            "a       1,000\n"
            "bé          7\n");
}

TEST(Table, IgnoresTheWidthOfColours) {
  text::Palette palette;
  palette.red = "\033[31m";
  palette.reset = "\033[0m";
  Table table(palette, {Align::right, Align::left});
  table.row({text::Cell("1", palette.red), "x"});
  table.row({"22", "y"});
  EXPECT_EQ(table.text(), " \033[31m1\033[0m  x\n22  y\n");
}

TEST(Numbers, AreGroupedByThousands) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(4385920), "4,385,920");
  EXPECT_EQ(grouped(-1000), "-1,000");
  EXPECT_EQ(grouped(-999), "-999");
}

TEST(Numbers, APercentageIsNeverRoundedUpTo100) {
  EXPECT_EQ(percent(1), "100.0 %");
  EXPECT_EQ(percent(0.99999), "99.9 %");
  EXPECT_EQ(percent(0.875), "87.5 %");
  EXPECT_EQ(percent(0), "0.0 %");
}

}  // namespace
}  // namespace whence
