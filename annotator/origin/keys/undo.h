// The metadata keys that say what whence changed in a file, and what strip restores by them.
#pragma once

#include <string_view>

namespace whence::origin::keys {

// Keys of origin.h, node.h and torch.h that a node had before annotate, "namespace,pkg.torch.onnx.fx_node"; usually
// absent. "name" among them: the node had a name field, an empty one.
inline constexpr std::string_view kept = "pkg.whence.kept";
// Entries under a key that the node had twice, of which the first stayed: merged_entries.h.
inline constexpr std::string_view merged = "pkg.whence.merged";
inline constexpr std::string_view original_name = "pkg.whence.original_name";
inline constexpr std::string_view carry = "pkg.whence.carry";  // "doc_string": its last line is ours (carried_token.h)
inline constexpr std::string_view annotated = "pkg.whence.annotated";  // whence's version; there once annotate ran
inline constexpr std::string_view original_ir_version = "pkg.whence.original_ir_version";  // when annotate raised it
// The data files of the weights before the file was written into another folder: {"one.onnx.data": "w.bin"}
// (carried_data.h).
inline constexpr std::string_view data_files = "pkg.whence.data_files";

}  // namespace whence::origin::keys
