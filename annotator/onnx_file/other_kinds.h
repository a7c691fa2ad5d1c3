// Files that people give in place of an ONNX model, known by their first bytes, so that an error can say what it is
// that they gave.
#pragma once

#include <optional>
#include <string_view>

namespace whence::onnx_file {

struct OtherKind {
  std::string_view what;    // "a zip archive"
  std::string_view remedy;  // what to do to get an ONNX model; may be empty
};

// nullopt for an ONNX model, and for what is not known.
std::optional<OtherKind> other_kind(std::string_view bytes);

// True if the bytes begin with a field that an ONNX model has.
bool begins_as_onnx(std::string_view bytes);

}  // namespace whence::onnx_file
