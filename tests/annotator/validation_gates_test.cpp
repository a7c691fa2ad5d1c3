// Thresholds, baselines and counts. tests/validate tests complete files.
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

TEST(Counts, CoveredExcludesAncestors) {
  Counts counts;
  for (std::size_t i = 0; i < confidence_count; ++i) counts.by[i] = static_cast<std::int64_t>(i) + 1;
  EXPECT_EQ(counts.total(), 15);
  EXPECT_EQ(counts.covered(), 1 + 2 + 3);
  EXPECT_DOUBLE_EQ(counts.share(3), 0.2);
  EXPECT_DOUBLE_EQ(Counts{}.share(0), 1);
}

TEST(Threshold, HasAConfidenceAndAPercentage) {
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

// Returns counts of exact nodes and of nodes without a module.
Counts exact_counts(std::int64_t exact, std::int64_t unattributed) {
  Counts counts;
  counts.by = {exact, 0, 0, 0, unattributed};
  return counts;
}

using ModuleRows = std::vector<std::pair<std::string, Counts>>;

// Returns the modules that the shortfall against a baseline names, and the number of lost nodes.
std::pair<std::vector<std::string>, std::int64_t> losses_of(const ModuleRows& before, const ModuleRows& now) {
  validation::Baseline baseline{.file = "before.onnx", .all = before.front().second, .modules = before, .naming = {}};
  validation::Coverage coverage;
  coverage.all = now.front().second;
  coverage.modules = now;
  validation::Gates gates;
  gates.baseline = "before.json";
  const auto shortfalls = validation::shortfalls_of(coverage, {}, gates, &baseline);
  if (shortfalls.empty()) return {};
  EXPECT_EQ(shortfalls.size(), 1u);
  return {shortfalls.front().modules, shortfalls.front().nodes.value_or(-1)};
}

TEST(Baseline, NamesTheInnermostModulesThatLostNodes) {
  using Lost = std::pair<std::vector<std::string>, std::int64_t>;
  const ModuleRows before = {{"", exact_counts(20, 0)},
                             {"a", exact_counts(12, 0)},
                             {"a.b", exact_counts(8, 0)},
                             {"a.b.c", exact_counts(4, 0)},
                             {"d", exact_counts(8, 0)}};
  const auto with = [&](std::vector<std::pair<std::size_t, std::int64_t>> losses) {
    ModuleRows now = before;
    for (const auto& [row, nodes] : losses) now[row].second = exact_counts(now[row].second.by[0] - nodes, nodes);
    return now;
  };
  EXPECT_EQ(losses_of(before, before), Lost{});
  EXPECT_EQ(losses_of(before, with({{0, 3}, {1, 3}, {2, 3}, {3, 3}})), (Lost{{"a.b.c"}, 3}));
  EXPECT_EQ(losses_of(before, with({{0, 3}, {1, 3}, {2, 3}})), (Lost{{"a.b"}, 3}));
  EXPECT_EQ(losses_of(before, with({{0, 3}, {1, 3}, {2, 3}, {3, 1}})), (Lost{{"a.b", "a.b.c"}, 3}));
  EXPECT_EQ(losses_of(before, with({{0, 5}, {1, 2}})), (Lost{{"", "a"}, 5}));
  EXPECT_EQ(losses_of(before, with({{0, 5}, {1, 2}, {4, 3}})), (Lost{{"d", "a"}, 5}));  // the largest loss is first
  // Nodes that are missing in the new file do not count as lost.
  ModuleRows fewer = before;
  fewer[0].second = exact_counts(18, 0);
  fewer[4].second = exact_counts(6, 0);
  EXPECT_EQ(losses_of(before, fewer), Lost{});
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
