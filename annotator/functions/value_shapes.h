// Shapes of a file's values, as far as they are known: as stated in the file, else as ONNX's shape inference finds
// them. Reports use them to count operations and to label edges. Weights stay on disk.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "schema/flat_map.h"
#include "schema/result.h"

namespace whence::functions {

struct ValueShape {
  std::string text;                                // "float32[batch,16]"
  std::optional<std::vector<std::int64_t>> sizes;  // if all are numbers
};

// The values of the outermost graph with its calls inlined, by name. Values of one type share a shape.
using ValueShapes = FlatMap<std::string, std::shared_ptr<const ValueShape>>;

struct FileShapes {
  ValueShapes values;
  // Dynamic sizes of the inputs without a number, sorted; "?" for a size without a name.
  std::vector<std::string> open;
};

// `sizes`: numbers for dynamic sizes of inputs, by name: {"batch", 1}; "all" sets every size that is not listed.
// Errors: those of read_onnx_summary; usage for a name that no input has.
Result<FileShapes> value_shapes(const std::string& path, const std::map<std::string, std::int64_t>& sizes);

}  // namespace whence::functions
