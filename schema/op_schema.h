// Operator schemas: "aten::gelu(Tensor self, *, str approximate='none') -> Tensor" as data.
// Converters are registered under the schema string, which gives overload, argument names, order and defaults.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/program.h"

namespace whence {

struct SchemaType {
  std::string base;       // "Tensor", "int", "float", "bool", "str", "Scalar", "ScalarType", "Device", "Layout", ...
  bool optional = false;  // "Tensor?"
  bool list = false;      // "int[]", "int[2]", "Tensor?[]"
  bool optional_element = false;
  int list_size = 0;  // 2 in "int[2]", for which one int may be passed
  std::string alias;  // "a" in Tensor(a): a view of the input; "a!": written to; empty: neither

  bool writes() const { return alias.find('!') != std::string::npos; }
  bool views() const { return !alias.empty() && !writes(); }
};

struct SchemaArgument {
  std::string name;
  SchemaType type;
  std::optional<Argument> default_value;
  bool keyword_only = false;
};

struct OpSchema {
  std::string name;      // "aten::gelu"
  std::string overload;  // "" for the default overload
  std::vector<SchemaArgument> arguments;
  std::vector<SchemaArgument> returns;

  std::string key() const { return overload.empty() ? name : name + "." + overload; }
  const SchemaArgument* find(std::string_view argument) const;
};

// Throws Error(internal) with the offending part: schemas are compiled in.
OpSchema parse_op_schema(std::string_view text);

}  // namespace whence
