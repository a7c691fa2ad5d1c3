// Finds metadata entries with a repeated key, writes them as text and parses the text.
#include <gtest/gtest.h>

#include "annotator/annotation/merged_entries.h"

namespace whence {

namespace {

TEST(MergedEntries, RoundTripThroughText) {
  const std::vector<onnx_file::PlacedEntry> entries = {
      {2, "key", "value, with; marks"}, {5, "", ""}, {6, "1,2;", "\n"}};
  const auto parsed = annotation::parse_merged_entries(annotation::to_text(entries));
  ASSERT_EQ(parsed.size(), entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(parsed[i].position, entries[i].position);
    EXPECT_EQ(parsed[i].key, entries[i].key);
    EXPECT_EQ(parsed[i].value, entries[i].value);
  }
}

TEST(MergedEntries, RejectsInvalidText) {
  for (const char* text : {"red", "1,2", "1,2;x", "1,9,9;ab", "-1,0,0;", "1,18446744073709551615,1;ab"}) {
    EXPECT_TRUE(annotation::parse_merged_entries(text).empty()) << text;
  }
}

TEST(MergedEntries, FindsEveryRepeatedEntry) {
  onnx_file::NodeView node;
  node.metadata = {{"a", "1"}, {"b", "2"}, {"a", "3"}, {"a", "1"}};
  const auto repeated = annotation::repeated_entries(node);
  ASSERT_EQ(repeated.size(), 2U);
  EXPECT_EQ(repeated[0].position, 2U);
  EXPECT_EQ(repeated[1].position, 3U);
  node.regular_metadata = false;
  EXPECT_TRUE(annotation::repeated_entries(node).empty());
}

}  // namespace
}  // namespace whence
