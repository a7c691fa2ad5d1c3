// Sizes of an archive as products: a stride is compared with the sizes behind its axis.
#include <gtest/gtest.h>

#include "annotator/pt2/size_product.h"

namespace whence::pt2 {
namespace {

const std::string s0 = "Symbol('s0', positive=True, integer=True)", s1 = "Symbol('s1', positive=True, integer=True)";

SizeProduct product(const std::string& tree) { return size_product(tree).value(); }

TEST(SizeProduct, OrderAndFormDoNotMatter) {
  EXPECT_EQ(product("Mul(" + s0 + ", Integer(2), " + s1 + ")"),
            multiplied(product(s1), product("Mul(Integer(2), " + s0 + ")")));
  EXPECT_EQ(product("Pow(" + s0 + ", Integer(2))"), multiplied(product(s0), product(s0)));
  EXPECT_EQ(product("Mul(" + s1 + ", Max(Integer(1), " + s0 + "))"), multiplied(product(s0), product(s1)));
  EXPECT_EQ(product("Integer(6)"), multiplied(product("2"), product("Integer(3)")));
}

TEST(SizeProduct, SumsAreFactors) {
  const std::string sum = "Add(" + s0 + ", Integer(-1))";
  EXPECT_EQ(product("Mul(Integer(2), " + sum + ")"), multiplied(product(sum), product("2")));
  EXPECT_NE(product(sum), product(s0));
  EXPECT_NE(product(s0), product(s1));
  EXPECT_NE(product("Mul(Integer(2), " + s0 + ")"), product(s0));
}

TEST(SizeProduct, WhatIsTooLongIsNotCompared) {
  std::string nested = s0, wide = "Mul(" + s0;
  for (int i = 0; i < 100; ++i) {
    nested.insert(0, "Mul(").append(", Integer(1))");
    wide.append(", ").append(s1);
  }
  EXPECT_FALSE(size_product(nested));
  EXPECT_FALSE(size_product(wide + ")"));
  EXPECT_FALSE(size_product("Mul(Integer(9223372036854775807), Integer(2))"));
  EXPECT_TRUE(size_product("Mul("));  // no tree: a factor by itself
}

}  // namespace
}  // namespace whence::pt2
