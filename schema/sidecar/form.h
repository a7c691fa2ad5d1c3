// The form of a sidecar that its writer and reader share: tables, columns and the words in them.
// schema/sidecar.schema.json says the same to everybody else; tests/schema proves that the two agree.
// A minor version may append columns to a table; any other change to one is a new major version.
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
inline constexpr std::size_t inline_limit = 4096;  // bytes of a constant that are held in the file itself

struct Table {
  std::string_view name;
  std::vector<std::string_view> columns;
  std::size_t later = 0;  // so many of the last ones are missing in files of an older minor version
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
     "digest", "digest_transposed", "digest_float16", "digest_bfloat16", "sketch"},
    1};
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

// Every field of the top level that is always there, in the order of the file.
inline constexpr std::array<std::string_view, 21> fields{
    "format",  "version", "producer", "source",    "program_digest", "ran",        "strings",
    "symbols", "modules", "scopes",   "frames",    "stacks",         "parameters", "constants",
    "values",  "inputs",  "outputs",  "signature", "blocks",         "operations", "bindings"};
// There only when they are not empty: operations by the basis of their scope, where it was not observed.
inline constexpr std::array<std::string_view, 2> bases{"inferred", "enclosing"};
// There only when there are any: conditions on sizes, as text over rows of symbols ("s0 <= 5").
inline constexpr std::string_view constraints = "constraints";
// There only when the memory of tensors was seen: those that do not lie as their operators make them, a row each:
// [value] alone where it is not known, or [value, memory, offset, strides], sizes as text.
inline constexpr std::string_view places = "places";
inline constexpr std::string_view complete = "complete";  // there only when false

// Words for enumerations, by their number.
inline constexpr std::array<std::string_view, 4> symbol_kinds{"unknown", "axis", "data", "derived"};
inline constexpr std::array<std::string_view, 8> value_kinds{"tensor", "integer", "floating", "boolean",
                                                             "string", "opaque",  "sequence", "optional"};
inline constexpr std::array<std::string_view, 5> value_sources{"node", "input", "parameter", "constant", "block_input"};
inline constexpr std::array<std::string_view, 3> parameter_kinds{"parameter", "buffer", "attribute"};
inline constexpr std::array<std::string_view, 2> signature_roles{"input", "output"};

// Symbols in the texts of sizes: "s3" is row 3.
inline std::string symbol_name(SymbolId id) { return "s" + std::to_string(id.number()); }
// And the tensor's own axes, in the texts of its place: "d1" is axis 1.
inline std::string place_symbol_name(SymbolId id) {
  const auto local = local_size(id);
  return local ? "d" + std::to_string(local->axis) : symbol_name(id);
}

}  // namespace whence::sidecar_form
