// Sizes of an archive as products: a stride is compared with the sizes behind its axis.
#include <sstream>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "annotator/pt2/size_product.h"

namespace whence::pt2 {
namespace {

const std::string s0 = "Symbol('s0', positive=True, integer=True)", s1 = "Symbol('s1', positive=True, integer=True)";

std::string tree(const std::string& name, const std::vector<std::string>& arguments) {
  std::ostringstream text;
  const char* before = "(";
  text << name;
  for (const std::string& argument : arguments) text << std::exchange(before, ", ") << argument;
  text << ")";
  return text.str();
}

SizeProduct product(const std::string& tree) { return size_product(tree).value(); }

TEST(SizeProduct, OrderAndFormDoNotMatter) {
  const std::string two = "Integer(2)", one = "Integer(1)";
  EXPECT_EQ(product(tree("Mul", {s0, two, s1})), multiplied(product(s1), product(tree("Mul", {two, s0}))));
  EXPECT_EQ(product(tree("Pow", {s0, two})), multiplied(product(s0), product(s0)));
  EXPECT_EQ(product(tree("Mul", {s1, tree("Max", {one, s0})})), multiplied(product(s0), product(s1)));
  EXPECT_EQ(product("Integer(6)"), multiplied(product("2"), product("Integer(3)")));
}

TEST(SizeProduct, SumsAreFactors) {
  const std::string sum = tree("Add", {s0, "Integer(-1)"}), doubled = tree("Mul", {"Integer(2)", sum});
  EXPECT_EQ(product(doubled), multiplied(product(sum), product("2")));
  EXPECT_NE(product(sum), product(s0));
  EXPECT_NE(product(s0), product(s1));
  EXPECT_NE(product(doubled), product(sum));
}

TEST(SizeProduct, WhatIsTooLongIsNotCompared) {
  std::string nested = s0;
  for (int i = 0; i < 100; ++i) nested = tree("Mul", {nested, "Integer(1)"});
  EXPECT_FALSE(size_product(nested));
  EXPECT_FALSE(size_product(tree("Mul", std::vector<std::string>(100, s1))));
  EXPECT_FALSE(size_product("Mul(Integer(9223372036854775807), Integer(2))"));
  EXPECT_TRUE(size_product("Mul("));  // no tree: a factor by itself
}

}  // namespace
}  // namespace whence::pt2
