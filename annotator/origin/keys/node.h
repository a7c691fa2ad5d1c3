// Further metadata keys of whence on nodes, beside those of origin.h.
#pragma once

#include <string_view>

namespace whence::origin::keys {

inline constexpr std::string_view modules = "pkg.whence.modules";  // JSON array, when there is more than one
// The identity of the operation, "encoder.fc/0/linear/0" (operation_ids.h); of a fused node a JSON array of them.
inline constexpr std::string_view id = "pkg.whence.id";
inline constexpr std::string_view call = "pkg.whence.call";
// Call numbers of all modules on the way, root first, "0/2/0"; only where one above the last was called before.
inline constexpr std::string_view calls = "pkg.whence.calls";
// The called modules on the way, root first, as a JSON array; only where PyTorch's scopes on the node do not say it:
// they are another node's, or name a module that is held twice by its other name.
inline constexpr std::string_view scopes = "pkg.whence.scopes";
inline constexpr std::string_view source = "pkg.whence.source";  // "modeling_bert.py:88 forward"
inline constexpr std::string_view rule = "pkg.whence.rule";
inline constexpr std::string_view evidence = "pkg.whence.evidence";  // for matched nodes: what each rule said
inline constexpr std::string_view version = "pkg.whence.version";
// The operator that the keys were written for, "com.microsoft::FusedConv"; on operators of a runtime only, which often
// have the metadata of a node that they took in.
inline constexpr std::string_view confidence_operator = "pkg.whence.operator";

}  // namespace whence::origin::keys
