// The format of a sidecar for its writer and reader: tables, columns and enumeration words. schema/sidecar.schema.json
// is the public description; tests/schema compares the two. A minor version may append columns to a table. Any other
// change of a table needs a new major version.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schema/place.h"
#include "schema/program.h"

namespace whence::sidecar_form {

inline constexpr std::string_view format = "whence-sidecar";
inline constexpr std::size_t inline_limit = 4096;  // larger constants and buffers (in bytes) are left out of the file
// Of buffers that no checkpoint has, which are part of the program: of each, and of all together.
inline constexpr std::size_t unsaved_limit = std::size_t{1} << 18, all_unsaved_limit = std::size_t{1} << 21;

struct Table {
  std::string_view name;
  std::vector<std::string_view> columns;
  std::size_t optional_columns = 0;  // number of last columns that files of older minor versions may lack
};

inline const Table symbols{"symbols", {"name", "example", "min", "max", "kind", "size"}, 2};
inline const Table modules{"modules",
                           {"path", "type", "parent", "aliases", "children", "level", "standard", "own_parameters",
                            "parameters_total", "parameters_trainable"}};
inline const Table scopes{"scopes", {"parent", "module", "call"}};
inline const Table frames{"frames", {"file", "line", "function", "text"}};
inline const Table stacks{"stacks", {"frames"}};
inline const Table parameters{
    "parameters",
    {"name", "aliases", "kind", "trainable", "persistent", "dtype", "shape", "file", "member", "offset", "bytes",
     "digest", "digest_transposed", "digest_float16", "digest_bfloat16", "sketch", "data"},
    2};
inline const Table constants{"constants", {"name", "dtype", "shape", "bytes", "data", "digest", "ops"}};
inline const Table values{"values", {"name", "kind", "dtype", "dims", "source", "index", "known"}};
inline const Table inputs{"inputs", {"name", "value"}};
inline const Table outputs{"outputs", {"name", "value"}};
inline const Table signature{"signature", {"role", "kind", "name", "target", "persistent"}};
inline const Table blocks{"blocks", {"operation", "inputs", "outputs"}};
inline const Table operations{
    "operations",
    {"target", "overload", "scope", "stack", "name", "arguments", "outputs", "list_output", "block", "text"}};
inline const Table bindings{"bindings", {"file", "digest", "opset", "nodes"}};

inline constexpr std::array tables{&symbols, &modules, &scopes,  &frames,    &stacks, &parameters, &constants,
                                   &values,  &inputs,  &outputs, &signature, &blocks, &operations, &bindings};

// The mandatory top-level fields, in file order.
inline constexpr std::array<std::string_view, 21> fields{
    "format",  "version", "producer", "source",    "program_digest", "ran",        "strings",
    "symbols", "modules", "scopes",   "frames",    "stacks",         "parameters", "constants",
    "values",  "inputs",  "outputs",  "signature", "blocks",         "operations", "bindings"};
// Absent if empty: operations whose scope was not observed, by ScopeBasis.
inline constexpr std::array<std::string_view, 2> bases{"inferred", "enclosing"};
// Absent if empty: conditions on sizes, as text over rows of symbols ("s0 <= 5").
inline constexpr std::string_view constraints = "constraints";
// Present if memory layouts were observed. One row for each tensor whose layout differs from the rules of its operator:
// [value] if unknown, or [value, memory, offset, strides] with sizes as text.
inline constexpr std::string_view places = "places";
inline constexpr std::string_view complete = "complete";  // present only if false

// Words for enumerations, indexed by their values.
inline constexpr std::array<std::string_view, 4> symbol_kinds{"unknown", "axis", "data", "derived"};
inline constexpr std::array<std::string_view, 8> value_kinds{"tensor", "integer", "floating", "boolean",
                                                             "string", "opaque",  "sequence", "optional"};
inline constexpr std::array<std::string_view, 5> value_sources{"node", "input", "parameter", "constant", "block_input"};
inline constexpr std::array<std::string_view, 3> parameter_kinds{"parameter", "buffer", "attribute"};
inline constexpr std::array<std::string_view, 2> signature_roles{"input", "output"};

// The name of a symbol in the text of a size: "s3" is row 3.
inline std::string symbol_name(SymbolId id) { return "s" + std::to_string(id.number()); }
// Also names the axes of the tensor itself in the text of its layout: "d1" is axis 1.
inline std::string place_symbol_name(SymbolId id) {
  const auto local = local_size(id);
  return local ? "d" + std::to_string(local->axis) : symbol_name(id);
}

}  // namespace whence::sidecar_form
