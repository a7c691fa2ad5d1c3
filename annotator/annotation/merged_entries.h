// Metadata that annotate takes away: keys that a node carries twice (ONNX Runtime's fusions write them so) are merged
// to the first, and the stamps of another program make room for those of the sidecar. What was taken away is kept as
// text, so that strip can put it back where it stood.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_rewrite.h"

namespace whence::annotation {

// Every entry whose key stands on the node before it; none when the metadata is too irregular to be put back exactly.
std::vector<onnx_file::PlacedEntry> repeated_entries(const onnx_file::NodeView& node);

// The same, and every entry under `key`; ascending by position.
std::vector<onnx_file::PlacedEntry> entries_in_the_way(const onnx_file::NodeView& node, std::string_view key);

// "3,9,5;namespace...": position, length of key and of value, then both, for each.
std::string to_text(const std::vector<onnx_file::PlacedEntry>& entries);
// Empty for text that is none: it was written by hand.
std::vector<onnx_file::PlacedEntry> parse_merged_entries(std::string_view text);

}  // namespace whence::annotation
