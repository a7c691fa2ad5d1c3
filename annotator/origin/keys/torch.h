// PyTorch's metadata keys on nodes (torch/onnx/_internal/exporter/_core.py). whence writes them in PyTorch's format, so
// that existing viewers work.
#pragma once

#include <string_view>

namespace whence::origin::keys {

inline constexpr std::string_view name_space = "namespace";
inline constexpr std::string_view class_hierarchy = "pkg.torch.onnx.class_hierarchy";
inline constexpr std::string_view name_scopes = "pkg.torch.onnx.name_scopes";
inline constexpr std::string_view fx_node = "pkg.torch.onnx.fx_node";
inline constexpr std::string_view stack_trace = "pkg.torch.onnx.stack_trace";

}  // namespace whence::origin::keys
