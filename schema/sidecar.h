// The sidecar, model.whence.json: a Program and its provenance as a file, weights by reference.
// Format: schema/sidecar.schema.json. Strings are interned, rows are arrays, so that a million operations stay readable.
// Unknown fields of a newer minor version survive read and write; a newer major version is refused.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "schema/program.h"
#include "schema/result.h"

namespace whence {

inline constexpr int sidecar_major = 1;
inline constexpr int sidecar_minor = 0;

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
  std::shared_ptr<const std::string> unknown;  // fields of a newer minor version, as JSON text
};

std::string to_json_text(const Sidecar& sidecar);                          // deterministic, one row a line
Result<Sidecar> parse_sidecar(std::string_view text, const std::string& file);
Result<Sidecar> read_sidecar(const std::string& path);
void write_sidecar(const Sidecar& sidecar, const std::string& path);       // atomic; throws Error(cannot_write)

}  // namespace whence
