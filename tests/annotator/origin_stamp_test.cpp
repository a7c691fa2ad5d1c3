// Writes and parses stamps and ranges, and refuses other text.
#include <gtest/gtest.h>

#include "annotator/origin/stamp.h"

namespace whence {

using origin::OriginKind;
using origin::parse_ranges;

namespace {

TEST(Stamp, ARoundTripPreservesTheOrigin) {
  const origin::NodeOrigin origins[] = {
      {OriginKind::own, {17}}, {OriginKind::fused, {17, 18}}, {OriginKind::shared, {3, 9, 12}}};
  const char* const texts[] = {"17", "fused:17,18", "shared:3,9,12"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(origin::to_stamp(origins[i]), texts[i]);
    const auto parsed = origin::parse_stamp(texts[i]);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->kind, origins[i].kind);
    EXPECT_EQ(parsed->ops, origins[i].ops);
  }
}

TEST(Stamp, RefusesInvalidText) {
  for (const char* text : {"", "x", "1,", "1,2", "fused:", "fused:1,,2", "shared:-1", "99999999999", "1 ", "other:1"}) {
    EXPECT_FALSE(origin::parse_stamp(text)) << text;
  }
}

TEST(Ranges, ARoundTripPreservesTheNumbers) {
  EXPECT_EQ(origin::to_ranges({0, 1, 2, 7, 9, 10}), "0-2,7,9-10");
  EXPECT_EQ(parse_ranges("0-2,7,9-10"), (std::vector<std::int32_t>{0, 1, 2, 7, 9, 10}));
  EXPECT_EQ(origin::to_ranges({}), "");
  EXPECT_EQ(parse_ranges(""), std::vector<std::int32_t>{});
}

TEST(Ranges, RefuseInvalidText) {
  for (const char* text : {"3-1", "5,5", "5,4", "-1", "1-", "1,", "a", "1;2", "0-2147483647", "99999999999"}) {
    EXPECT_FALSE(parse_ranges(text)) << text;
  }
}

}  // namespace
}  // namespace whence
