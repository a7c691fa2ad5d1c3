// Metadata that annotate removes: repeated keys on a node (ONNX Runtime's fusions write them) are reduced to the first
// entry, and stamps of another program are replaced with stamps of the sidecar's program. Removed entries are stored as
// text so that strip can restore them at their positions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_rewrite.h"

namespace whence::annotation {

// Returns every entry whose key occurs earlier on the node; none if the metadata could not be restored exactly.
std::vector<onnx_file::PlacedEntry> repeated_entries(const onnx_file::NodeView& node);

// Returns the repeated entries and every entry under `key`, in ascending order of position.
std::vector<onnx_file::PlacedEntry> conflicting_entries(const onnx_file::NodeView& node, std::string_view key);

// Writes for each entry its position, the lengths of key and value, then both: "3,9,5;namespace...".
std::string to_text(const std::vector<onnx_file::PlacedEntry>& entries);
// Returns an empty list for invalid text, which was written by hand.
std::vector<onnx_file::PlacedEntry> parse_merged_entries(std::string_view text);

}  // namespace whence::annotation
