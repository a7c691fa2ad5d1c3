// Tests quantisation against numbers worked by hand.
#include <gtest/gtest.h>

#include "annotator/derivation/quantise.h"

namespace whence::derivation {
namespace {

const std::vector<float> numbers = {-1.0F, 0.5F, 2.0F, 0.0F, 4.0F, -4.0F};

// Worked by hand: the largest magnitude is 4, so the scale is 8 / 254.
TEST(Quantise, SymmetricIntegersOfATensor) {
  const Scheme scheme;
  const Numbers all{numbers, {2, 3}};
  const GroupScales groups = group_scales(group_ranges(all, scheme.groups), scheme);
  ASSERT_EQ(groups.scales.size(), 1u);
  EXPECT_FLOAT_EQ(groups.scales[0], 8.0F / 254);
  EXPECT_EQ(groups.zeros, std::vector<std::int32_t>{0});
  EXPECT_EQ(integers(all, scheme, groups), (std::vector<std::int16_t>{-32, 16, 64, 0, 127, -127}));
}

// Channel 0 holds -1, 0.5 and 2, so 3 / 255 is a step and 85 is zero.
TEST(Quantise, AsymmetricIntegersOfChannels) {
  Scheme scheme;
  scheme.is_signed = scheme.is_symmetric = false;
  scheme.low = scheme.clip_low = 0;
  scheme.high = scheme.clip_high = 255;
  scheme.groups = {Groups::Kind::channel, 0, 0};
  const Numbers all{numbers, {2, 3}};
  const GroupScales groups = group_scales(group_ranges(all, scheme.groups), scheme);
  EXPECT_FLOAT_EQ(groups.scales[0], 3.0F / 255);
  EXPECT_EQ(groups.zeros[0], 85);
  const auto found = integers(all, scheme, groups);
  EXPECT_EQ((std::vector<std::int16_t>{found.begin(), found.begin() + 3}), (std::vector<std::int16_t>{0, 127, 255}));
}

// A row of five elements in blocks of four: the second block holds one element and three after the end.
TEST(Quantise, BlocksOfFourBitsBeginAtAByte) {
  Scheme scheme;
  scheme.bits = 4;
  scheme.is_signed = scheme.is_symmetric = false;
  scheme.low = scheme.clip_low = 0;
  scheme.high = scheme.clip_high = 15;
  scheme.groups = {Groups::Kind::block, 1, 4};
  scheme.scale_rule = ScaleRule::range_in_float;
  scheme.rounding = Rounding::multiply_from_zero;
  scheme.layout = Layout::n_bits;
  const std::vector<float> row = {0, 1, 2, 15, 30};
  const Numbers all{row, {1, 5}};
  const GroupScales groups = group_scales(group_ranges(all, scheme.groups), scheme);
  EXPECT_EQ(groups.scales, (std::vector<float>{1, 2}));
  EXPECT_EQ(stored_integers(all, scheme, groups), std::string("\x10\xf2\x0f\x00", 4));
  EXPECT_EQ(stored_zeros(groups, scheme, 1), std::string("\x00", 1));
}

// 37 numbers: more than are compared at once, with the extremes among the last ones.
TEST(Quantise, RangesOfManyNumbers) {
  std::vector<float> many(37, 0.25F);
  many[35] = -3;
  many[36] = 5;
  const std::vector<Range> ranges = group_ranges({many, {37}}, {});
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].least, -3);
  EXPECT_EQ(ranges[0].largest, 5);
}

// The scale is 1. Of the numbers 0.5, 1.5 ... only halves from zero differ from halves to even, and only at even ones.
TEST(Quantise, RoundingsThatDifferAtOneNumberOfMany) {
  Scheme scheme;
  std::vector<float> many(100, 0.25F);
  const GroupScales groups{{1}, {0}};
  const auto is_equal = [&](Rounding rounding) {
    return (equal_roundings({many, {100}}, scheme, groups) >> static_cast<unsigned>(rounding) & 1U) != 0;
  };
  EXPECT_TRUE(is_equal(Rounding::divide_from_zero));
  many[77] = 1.5F;  // 2 by both
  EXPECT_TRUE(is_equal(Rounding::divide_from_zero));
  many[98] = 2.5F;  // 2 and 3
  EXPECT_FALSE(is_equal(Rounding::divide_from_zero));
  EXPECT_TRUE(is_equal(Rounding::multiply_to_even));
}

}  // namespace
}  // namespace whence::derivation
