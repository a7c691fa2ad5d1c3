// Recognises by their first bytes files that users pass by mistake instead of an ONNX model, so that the error can name
// the kind of file.
#pragma once

#include <optional>
#include <string_view>

namespace whence::onnx_file {

struct OtherKind {
  std::string_view description;  // "a zip archive"
  std::string_view remedy;       // how to get an ONNX model; may be empty
};

// Returns nullopt for an ONNX model, and for bytes of an unknown kind.
std::optional<OtherKind> other_kind(std::string_view bytes);

// Returns true if the bytes begin with a field of an ONNX model.
bool begins_as_onnx(std::string_view bytes);

}  // namespace whence::onnx_file
