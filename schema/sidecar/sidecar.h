// The sidecar, model.whence.json: a Program and its provenance as a file, with weights by reference.
// Format: schema/sidecar.schema.json. Strings are interned and rows are arrays, so that a million operations stay
// readable. A minor version may add top-level fields and append columns to tables; an older whence keeps them when it
// rewrites the file. A newer major version is refused.
//
// The file does not contain the bytes of parameters (only archive, member, offset and digests) and of constants above
// 4 KiB (only their digest). After reading, these tensors have a size but no data.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "schema/program.h"
#include "schema/result.h"

namespace whence {

inline constexpr int sidecar_major = 1;
inline constexpr int sidecar_minor = 4;

// Identifies an ONNX file that was exported from the program, so that a mismatch can be reported.
struct Binding {
  std::string file;    // base name
  std::string digest;  // xxh3-128 of the whole file
  int opset = 0;
  std::int64_t nodes = 0;
};

struct Sidecar {
  Program program;
  std::vector<Binding> bindings;
  bool complete = true;                                // false: the recording ended early and lacks operations
  int minor = sidecar_minor;                           // minor version of the file that was read
  std::shared_ptr<const std::string> unknown;          // fields of a newer minor version: one JSON object as text
  std::shared_ptr<const std::string> unknown_columns;  // columns of a newer one: {table: {columns, rows}} as text
};

// Returns the text of the file, one line for each row. The same sidecar always gives the same text. Throws
// Error(unsupported_feature) for a name that is not UTF-8.
std::string to_json_text(const Sidecar& sidecar);

// Guarantees that all indices of the result are valid and that scopes and blocks form trees. `file` is the name for
// errors: empty_file, truncated_file, wrong_kind, corrupt_file (with a JSON pointer), newer_version.
Result<Sidecar> parse_sidecar(std::string_view text, const std::string& file);
Result<Sidecar> read_sidecar(const std::string& path);  // also missing_file

// Writes the file atomically. Throws Error: usage (file_names.h), cannot_write, and the errors of to_json_text.
void write_sidecar(const Sidecar& sidecar, const std::string& path);

}  // namespace whence
