// Sizes of a file's values, as far as they are known: those stated in the file, else those that ONNX's shape inference
// finds. Weights stay on disk. For reports, which count operations and write shapes beside edges.
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
  std::optional<std::vector<std::int64_t>> sizes;  // when all are numbers
};

// By name, the values of the outermost graph with its calls written out; values of one type share a shape.
using ValueShapes = FlatMap<std::string, std::shared_ptr<const ValueShape>>;

struct FileShapes {
  ValueShapes values;
  std::vector<std::string>
      open;  // dynamic sizes of the inputs that got no number, sorted; "?" for those without a name
};

// `sizes`: numbers for dynamic sizes of inputs, by their name: {"batch", 1}; "all" is every one that is not named.
// Errors: those of read_onnx_summary; usage for a name that no input has.
Result<FileShapes> value_shapes(const std::string& path, const std::map<std::string, std::int64_t>& sizes);

}  // namespace whence::functions
