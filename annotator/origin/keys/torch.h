// Metadata keys of other exporters on nodes. Those of PyTorch (torch/onnx/_internal/exporter/_core.py) are also written
// by whence, in PyTorch's format, so that existing viewers work.
#pragma once

#include <string_view>

namespace whence::origin::keys {

inline constexpr std::string_view name_space = "namespace";
inline constexpr std::string_view class_hierarchy = "pkg.torch.onnx.class_hierarchy";
inline constexpr std::string_view name_scopes = "pkg.torch.onnx.name_scopes";
inline constexpr std::string_view fx_node = "pkg.torch.onnx.fx_node";
inline constexpr std::string_view stack_trace = "pkg.torch.onnx.stack_trace";

// Scopes of PyTorch that are not modules: the root that it wraps around the model when it captures a graph, and the
// module stack of an operation without one.
inline constexpr std::string_view captured_root = "_export_root";
inline constexpr std::string_view no_module_stack = "_empty_nn_module_stack";

// The keys of onnxscript's graph builder (onnxscript/_internal/builder.py), with which mobius builds models. Each scope
// is relative to the one before it: ['', 'model', 'layers.0', 'self_attn'].
inline constexpr std::string_view onnxscript_class_hierarchy = "pkg.onnxscript.class_hierarchy";
inline constexpr std::string_view onnxscript_name_scopes = "pkg.onnxscript.name_scopes";

}  // namespace whence::origin::keys
