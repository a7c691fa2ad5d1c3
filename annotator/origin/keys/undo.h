// The metadata keys that record the changes of whence to a file, which strip reverts.
#pragma once

#include <string_view>

namespace whence::origin::keys {

// Keys of origin.h, node.h and torch.h that a node had before annotate, "namespace,pkg.torch.onnx.fx_node"; usually
// absent. "name" in the list: the node had an empty name field.
inline constexpr std::string_view kept = "pkg.whence.kept";
// Duplicate entries of a key, except the first, which was kept (merged_entries.h).
inline constexpr std::string_view merged = "pkg.whence.merged";
inline constexpr std::string_view original_name = "pkg.whence.original_name";
inline constexpr std::string_view carry =
    "pkg.whence.carry";  // "doc_string": its last line is a token (carried_token.h)
inline constexpr std::string_view annotated = "pkg.whence.annotated";  // whence's version, once annotate has run
inline constexpr std::string_view original_ir_version = "pkg.whence.original_ir_version";  // if annotate raised it
// The original data files of the weights if the file was written into another folder: {"one.onnx.data": "w.bin"}
// (carried_data.h).
inline constexpr std::string_view data_files = "pkg.whence.data_files";

}  // namespace whence::origin::keys
