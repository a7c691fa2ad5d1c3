// The sidecar, model.whence.json: a Program and its provenance as a file, weights by reference.
// Format: schema/sidecar.schema.json. Strings are interned, rows are arrays, so that a million operations stay
// readable. A minor version may add top-level fields, and columns behind those of a table: what a newer one added
// survives read and write. A newer major version is refused.
//
// Not in the file: the bytes of parameters (their archive, member, offset and digests are) and of constants above
// 4 KiB (their digest is). Read back, such tensors have a size and no data.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "schema/program.h"
#include "schema/result.h"

namespace whence {

inline constexpr int sidecar_major = 1;
inline constexpr int sidecar_minor = 3;

// An ONNX file that was exported from the program: which file, so that a mismatch can be said.
struct Binding {
  std::string file;    // base name
  std::string digest;  // xxh3-128 of the whole file
  int opset = 0;
  std::int64_t nodes = 0;
};

struct Sidecar {
  Program program;
  std::vector<Binding> bindings;
  bool complete = true;                                // false: the recording ended early, what is there is right
  int minor = sidecar_minor;                           // minor version of the file that was read
  std::shared_ptr<const std::string> unknown;          // fields of a newer minor version: one JSON object, as text
  std::shared_ptr<const std::string> unknown_columns;  // and columns: {table: {columns, rows}}, as text
};

// The file's text: deterministic, one row a line. Throws Error: unsupported_feature for a name that is not UTF-8.
std::string to_json_text(const Sidecar& sidecar);

// Every index of the result points somewhere, and scopes, modules and blocks form trees; `file` is named in errors.
// Errors: empty_file, truncated_file, wrong_kind, corrupt_file (with a JSON pointer), newer_version.
Result<Sidecar> parse_sidecar(std::string_view text, const std::string& file);
Result<Sidecar> read_sidecar(const std::string& path);  // also missing_file

// Atomic. Throws Error: usage (file_names.h), cannot_write, and what to_json_text throws.
void write_sidecar(const Sidecar& sidecar, const std::string& path);

}  // namespace whence
