// Thresholds and counts. Whole files are covered from the command line (tests/validate).
#include <gtest/gtest.h>

#include "annotator/validation/gates.h"
#include "schema/result.h"

namespace whence {

using origin::confidence_count;
using origin::Counts;
using validation::all_checks;
using validation::find_check;
using validation::parse_threshold;

namespace {

TEST(Counts, CoveredLeavesOutAncestors) {
  Counts counts;
  for (std::size_t i = 0; i < confidence_count; ++i) counts.by[i] = static_cast<std::int64_t>(i) + 1;
  EXPECT_EQ(counts.total(), 15);
  EXPECT_EQ(counts.covered(), 1 + 2 + 3);
  EXPECT_DOUBLE_EQ(counts.share(3), 0.2);
  EXPECT_DOUBLE_EQ(Counts{}.share(0), 1);
}

TEST(Threshold, NamesAConfidenceAndAPercentage) {
  Counts counts;
  counts.by = {6, 1, 1, 1, 1};
  EXPECT_DOUBLE_EQ(parse_threshold("exact=95").percent, 95);
  EXPECT_DOUBLE_EQ(parse_threshold("exact=95").reached(counts), 60);
  EXPECT_DOUBLE_EQ(parse_threshold("covered=99.5").percent, 99.5);
  EXPECT_DOUBLE_EQ(parse_threshold("covered=0").reached(counts), 80);
  for (const char* text :
       {"", "=", "exact", "exact=", "exact=a", "exact=101", "exact=-1", "root=5", "exact=5%", "=5"}) {
    EXPECT_THROW(parse_threshold(text), Error) << text;
  }
}

TEST(Checks, CodesAreUniqueAndAscending) {
  for (std::size_t i = 1; i < all_checks().size(); ++i) {
    EXPECT_LT(std::string(all_checks()[i - 1]->code), all_checks()[i]->code);
  }
  for (const validation::Check* check : all_checks()) {
    EXPECT_EQ(find_check(check->code), check);
    EXPECT_EQ(find_check(check->name), check);
    EXPECT_FALSE(std::string(check->remedy).empty());
  }
  EXPECT_EQ(find_check("V999"), nullptr);
}

}  // namespace
}  // namespace whence
