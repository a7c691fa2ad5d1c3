// Further metadata keys of whence on nodes, besides those of origin.h.
#pragma once

#include <string_view>

namespace whence::origin::keys {

inline constexpr std::string_view modules = "pkg.whence.modules";  // JSON array, if there are several
// The module of the main operation, if there are several; written by Python's whence.keep.
inline constexpr std::string_view primary = "pkg.whence.primary";
// The identity of the operation, "encoder.fc/0/linear/0" (operation_ids.h); for a fused node, a JSON array.
inline constexpr std::string_view id = "pkg.whence.id";
inline constexpr std::string_view call = "pkg.whence.call";
// Call numbers of all enclosing modules, root first, "0/2/0"; only if any module except the last was called before.
inline constexpr std::string_view calls = "pkg.whence.calls";
// The enclosing called modules, root first, as a JSON array; only if PyTorch's scopes on the node differ: they belong
// to another node, or use another name for a shared module.
inline constexpr std::string_view scopes = "pkg.whence.scopes";
inline constexpr std::string_view source = "pkg.whence.source";  // "modeling_bert.py:88 forward"
inline constexpr std::string_view rule = "pkg.whence.rule";
inline constexpr std::string_view evidence = "pkg.whence.evidence";  // for matched nodes: each rule's result
inline constexpr std::string_view version = "pkg.whence.version";
// The operator that the keys were written for, "com.microsoft::FusedConv"; only on operators of a runtime, which often
// have copied metadata from a node that they replaced.
inline constexpr std::string_view confidence_operator = "pkg.whence.operator";

}  // namespace whence::origin::keys
