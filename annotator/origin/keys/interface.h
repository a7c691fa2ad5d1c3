// PyTorch's metadata keys on the graph and on values, which export writes.
#pragma once

#include <string_view>

namespace whence::origin::keys {

inline constexpr std::string_view graph_signature = "pkg.torch.export.ExportedProgram.graph_signature";
inline constexpr std::string_view range_constraints = "pkg.torch.export.ExportedProgram.range_constraints";
inline constexpr std::string_view input_kind = "pkg.torch.export.graph_signature.InputSpec.kind";
inline constexpr std::string_view input_persistent = "pkg.torch.export.graph_signature.InputSpec.persistent";
inline constexpr std::string_view output_kind = "pkg.torch.export.graph_signature.OutputSpec.kind";
inline constexpr std::string_view original_node_name = "pkg.torch.onnx.original_node_name";

}  // namespace whence::origin::keys
