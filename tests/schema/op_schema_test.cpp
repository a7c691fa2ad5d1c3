// Parses operator schemas in PyTorch's printed form and in the form of native_functions.yaml.
#include "schema/op_schema.h"

#include <sstream>

#include <gtest/gtest.h>

#include "tests/schema/expect_error.h"

namespace whence {
namespace {

std::string text(const Argument& argument);

struct ArgumentText {
  std::string operator()(None) const { return "None"; }
  std::string operator()(ValueRef value) const { return "%" + std::to_string(value.id.number()); }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const {
    std::ostringstream out;
    out << "float " << value;
    return out.str();
  }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(const std::string& value) const { return "'" + value + "'"; }
  std::string operator()(DType value) const { return "dtype " + std::string(name_of(value)); }
  std::string operator()(const Keyword& value) const { return "keyword " + value.name; }
  std::string operator()(const ComplexNumber&) const { return "complex"; }
  std::string operator()(const ArgumentList& value) const {
    std::string out = "[";
    for (const Argument& element : value) out += (out.size() > 1 ? ", " : "") + text(element);
    return out + "]";
  }
};

std::string text(const Argument& argument) { return std::visit(ArgumentText{}, argument.data); }

TEST(OpSchema, ParsesDefaults) {
  const std::pair<const char*, const char*> rows[] = {
      {"int dim=-1", "-1"},
      {"int x=9223372036854775807", "9223372036854775807"},
      {"float eps=1e-05", "float 1e-05"},
      {"float rtol=1.0000000000000001e-05", "float 1e-05"},
      {"float p=2", "float 2"},
      {"float low=0.", "float 0"},
      {"float max=inf", "float inf"},
      {"float? min=-inf", "float -inf"},
      {"Scalar alpha=1", "1"},
      {"Scalar threshold=0.5", "float 0.5"},
      {"bool keepdim=False", "False"},
      {"bool? flag=True", "True"},
      {"str approximate='none'", "'none'"},
      {"str mode=\"a, b) -> \\\"\\n\"", "'a, b) -> \"\n'"},
      {"int[] dim=[]", "[]"},
      {"int[2] stride=1", "[1, 1]"},
      {"SymInt[3] padding=[0, -1, 2]", "[0, -1, 2]"},
      {"int[1]? dim=None", "None"},
      {"bool[3] mask=True", "[True, True, True]"},
      {"float[]? scales=[0.5, 2]", "[float 0.5, float 2]"},
      {"Tensor? bias=None", "None"},
      {"ScalarType? dtype=None", "None"},
      {"ScalarType dtype=long", "dtype int64"},
      {"ScalarType? dtype=4", "dtype int64"},
      {"MemoryFormat memory_format=contiguous_format", "keyword contiguous_format"},
      {"MemoryFormat memory_format=0", "keyword contiguous_format"},
      {"MemoryFormat? memory_format=1", "keyword preserve_format"},
      {"int reduction=Mean", "1"},
      {"Device? device=None", "None"},
      {"Layout layout=strided", "keyword strided"},
  };
  for (const auto& [argument, expected] : rows) {
    const OpSchema schema = parse_op_schema("aten::f(Tensor self, " + std::string(argument) + ") -> Tensor");
    ASSERT_EQ(schema.arguments.size(), 2u) << argument;
    ASSERT_TRUE(schema.arguments[1].default_value) << argument;
    EXPECT_EQ(text(*schema.arguments[1].default_value), expected) << argument;
  }
}

TEST(OpSchema, ParsesTypes) {
  struct Row {
    const char* type;
    SchemaType expected;
  };
  const Row rows[] = {
      {"Tensor", {.base = "Tensor", .alias = ""}},
      {"Tensor?", {.base = "Tensor", .optional = true, .alias = ""}},
      {"Tensor[]", {.base = "Tensor", .list = true, .alias = ""}},
      {"Tensor?[]", {.base = "Tensor", .list = true, .optional_element = true, .alias = ""}},
      {"Tensor(a!)", {.base = "Tensor", .alias = "a!"}},
      {"Tensor(a)?", {.base = "Tensor", .optional = true, .alias = "a"}},
      {"Tensor(a -> *)[]", {.base = "Tensor", .list = true, .alias = "a"}},
      {"Tensor(a!)[]", {.base = "Tensor", .list = true, .alias = "a!"}},
      {"SymInt[2]?", {.base = "int", .optional = true, .list = true, .list_size = 2, .alias = ""}},
      {"int[][]", {.base = "int[]", .list = true, .alias = ""}},
      {"Dict(str, Tensor)(a!)", {.base = "Dict(str, Tensor)", .alias = "a!"}},
      {"(str, int)[]", {.base = "(str, int)", .list = true, .alias = ""}},
      {"__torch__.torch.classes.quantized.Conv2dPackedParamsBase",
       {.base = "__torch__.torch.classes.quantized.Conv2dPackedParamsBase", .alias = ""}},
  };
  for (const Row& row : rows) {
    // Arguments and single results have the same syntax.
    const OpSchema schema = parse_op_schema("aten::f(" + std::string(row.type) + " x) -> " + row.type);
    for (const SchemaType& type : {schema.arguments.at(0).type, schema.returns.at(0).type}) {
      EXPECT_EQ(type.base, row.expected.base) << row.type;
      EXPECT_EQ(type.optional, row.expected.optional) << row.type;
      EXPECT_EQ(type.list, row.expected.list) << row.type;
      EXPECT_EQ(type.optional_element, row.expected.optional_element) << row.type;
      EXPECT_EQ(type.list_size, row.expected.list_size) << row.type;
      EXPECT_EQ(type.alias, row.expected.alias) << row.type;
    }
  }
}

TEST(OpSchema, ParsesNamesArgumentsAndReturns) {
  const OpSchema add =
      parse_op_schema("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)");
  EXPECT_EQ(add.name, "aten::add_");
  EXPECT_EQ(add.overload, "Tensor");
  EXPECT_EQ(add.key(), "aten::add_.Tensor");
  EXPECT_TRUE(add.find("self")->type.writes());
  EXPECT_FALSE(add.find("other")->keyword_only);
  EXPECT_TRUE(add.find("alpha")->keyword_only);
  EXPECT_EQ(add.find("beta"), nullptr);

  const OpSchema maximum =
      parse_op_schema("aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)");
  ASSERT_EQ(maximum.returns.size(), 2u);
  EXPECT_EQ(maximum.returns[1].name, "indices");

  const OpSchema split =
      parse_op_schema("aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]");
  EXPECT_EQ(split.key(), "aten::split.Tensor");
  EXPECT_TRUE(split.returns.at(0).type.list);
  EXPECT_TRUE(split.returns.at(0).type.views());

  EXPECT_TRUE(parse_op_schema("aten::_assert_async(Tensor self) -> ()").returns.empty());
  EXPECT_TRUE(parse_op_schema("prim::PythonOp(...) -> ...").arguments.empty());
  EXPECT_EQ(parse_op_schema("aten::percentFormat(str self, ...) -> str").arguments.size(), 1u);
  EXPECT_EQ(parse_op_schema("aten::f() -> (str, int)[]").returns.size(), 1u);
  EXPECT_EQ(parse_op_schema("aten::f() -> (str, int)").returns.size(), 2u);
}

TEST(OpSchema, RefusesInvalidSchemas) {
  for (const char* invalid :
       {"", "gelu(Tensor self) -> Tensor", "aten::gelu", "aten::gelu(Tensor self", "aten::gelu(Tensor self)",
        "aten::gelu(Tensor) -> Tensor", "aten::gelu(Tensor self Tensor other) -> Tensor",
        "aten::gelu(Tensor self) -> Tensor, Tensor", "aten::gelu(str s='x) -> Tensor", "aten::gelu(int x=y) -> Tensor",
        "aten::gelu(ScalarType t=int128) -> Tensor", "aten::gelu(MemoryFormat m=9) -> Tensor",
        "aten::gelu(int[ x) -> Tensor", "aten::gelu(int x=) -> Tensor", "aten::gelu(Tensor(a self) -> Tensor",
        "aten::gelu(Tensor self) -> (Tensor"}) {
    expect_error(Code::internal, [&] { parse_op_schema(invalid); });
  }
}

}  // namespace
}  // namespace whence
