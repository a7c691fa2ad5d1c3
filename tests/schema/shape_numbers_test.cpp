// Operations that compute integers from shapes and integers.
#include <gtest/gtest.h>

#include "schema/shape_functions.h"

namespace whence {
namespace {

const Size rows = Size::symbol(SymbolId(0));

class ShapeNumbers : public ::testing::Test {
 protected:
  // Returns the result of an operation. Value 0 is a tensor [rows, 3], value 1 is the integer rows + 1.
  Size result_of(const std::string& target, std::vector<NamedArgument> arguments) {
    const Shape shape = {rows, 3};
    const ShapeFacts facts = {[&](ValueId id) { return id == ValueId(0) ? &shape : nullptr; },
                              [](ValueId id) { return id == ValueId(1) ? rows + 1 : Size::unknown(); },
                              [](ValueId) { return false; },
                              {}};
    Node node;
    node.target = target;
    node.arguments = std::move(arguments);
    return number_of_result(node, facts);
  }
  static Argument value(int id) { return {ValueRef{ValueId(id)}}; }
  static Argument number(std::int64_t value) { return {value}; }
};

TEST_F(ShapeNumbers, ReadsSizesOfATensor) {
  for (const char* const target : {"aten::size", "aten::sym_size"}) {
    EXPECT_EQ(result_of(target, {{"self", value(0)}, {"dim", number(0)}}), rows);
    EXPECT_EQ(result_of(target, {{"self", value(0)}, {"dim", number(-1)}}), Size(3));
    EXPECT_FALSE(result_of(target, {{"self", value(0)}, {"dim", number(2)}}).is_known());
    EXPECT_FALSE(result_of(target, {{"self", value(0)}, {"dim", number(-3)}}).is_known());
    EXPECT_FALSE(result_of(target, {{"self", value(2)}, {"dim", number(0)}}).is_known());  // the rank is unknown
  }
  EXPECT_EQ(result_of("aten::numel", {{"self", value(0)}}), rows * 3);
  EXPECT_EQ(result_of("aten::len", {{"t", value(0)}}), rows);
}

TEST_F(ShapeNumbers, ComputesArithmetic) {
  EXPECT_EQ(result_of("aten::add", {{"a", value(1)}, {"b", number(2)}}), rows + 3);
  EXPECT_EQ(result_of("aten::mul", {{"a", value(1)}, {"b", value(1)}}), (rows + 1) * (rows + 1));
  EXPECT_EQ(result_of("aten::sub", {{"a", value(1)}, {"b", number(1)}}), rows);
  EXPECT_EQ(result_of("aten::floordiv", {{"a", number(7)}, {"b", number(2)}}), Size(3));
  EXPECT_EQ(result_of("aten::floordiv", {{"a", number(-7)}, {"b", number(2)}}), Size(-4));
  EXPECT_FALSE(result_of("aten::add", {{"a", value(2)}, {"b", number(2)}}).is_known());
  EXPECT_FALSE(result_of("aten::relu", {{"self", value(0)}}).is_known());
}

}  // namespace
}  // namespace whence
