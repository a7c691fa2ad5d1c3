// The metadata keys that whence reads and writes on nodes and models. PyTorch's own keys are written in PyTorch's own
// format, so that viewers which know them work.
#pragma once

#include <string_view>

namespace whence::origin::keys {

// PyTorch's (torch/onnx/_internal/exporter/_core.py)
inline constexpr std::string_view name_space = "namespace";
inline constexpr std::string_view class_hierarchy = "pkg.torch.onnx.class_hierarchy";
inline constexpr std::string_view name_scopes = "pkg.torch.onnx.name_scopes";
inline constexpr std::string_view fx_node = "pkg.torch.onnx.fx_node";
inline constexpr std::string_view stack_trace = "pkg.torch.onnx.stack_trace";

// PyTorch's, on the graph and on values; export writes them
inline constexpr std::string_view graph_signature = "pkg.torch.export.ExportedProgram.graph_signature";
inline constexpr std::string_view range_constraints = "pkg.torch.export.ExportedProgram.range_constraints";
inline constexpr std::string_view input_kind = "pkg.torch.export.graph_signature.InputSpec.kind";
inline constexpr std::string_view input_persistent = "pkg.torch.export.graph_signature.InputSpec.persistent";
inline constexpr std::string_view output_kind = "pkg.torch.export.graph_signature.OutputSpec.kind";
inline constexpr std::string_view original_node_name = "pkg.torch.onnx.original_node_name";

// whence's, on nodes
// The stamp that export leaves: "17" (own), "fused:17,18", "shared:3,9": indices of recorded operations.
inline constexpr std::string_view op = "pkg.whence.op";
inline constexpr std::string_view module = "pkg.whence.module";
inline constexpr std::string_view modules = "pkg.whence.modules";  // JSON array, when there is more than one
inline constexpr std::string_view call = "pkg.whence.call";
// Call numbers of all modules on the way, root first, "0/2/0"; only where one above the last was called before.
inline constexpr std::string_view calls = "pkg.whence.calls";
// The called modules on the way, root first, as a JSON array; only where PyTorch's scopes on the node do not say it:
// they are another node's, or name a module that is held twice by its other name.
inline constexpr std::string_view scopes = "pkg.whence.scopes";
inline constexpr std::string_view source = "pkg.whence.source";  // "modeling_bert.py:88 forward"
inline constexpr std::string_view confidence = "pkg.whence.confidence";
inline constexpr std::string_view rule = "pkg.whence.rule";
inline constexpr std::string_view evidence = "pkg.whence.evidence";  // for matched nodes: what each rule said
inline constexpr std::string_view version = "pkg.whence.version";
// The operator that the keys were written for, "com.microsoft::FusedConv"; on operators of a runtime only, which often
// have the metadata of a node that they took in.
inline constexpr std::string_view judged = "pkg.whence.operator";

// Keys that inline needs: on functions that whence cut out, on constants that were pulled into one, on calls.
inline constexpr std::string_view function = "pkg.whence.function";
inline constexpr std::string_view constant = "pkg.whence.constant";              // "initializer" or "node": what it was
inline constexpr std::string_view differs = "pkg.whence.differs";                // functions/call_text.h
inline constexpr std::string_view ir_before = "pkg.whence.ir_before_functions";  // on the model

// Keys that strip needs: those of the above that a node had before annotate, and the name it had.
inline constexpr std::string_view kept = "pkg.whence.kept";  // "namespace,pkg.torch.onnx.fx_node"; usually absent
// "name" among them: the node had a name field, an empty one.
// Entries under a key that the node had twice, of which the first stayed: merged_entries.h.
inline constexpr std::string_view merged = "pkg.whence.merged";
inline constexpr std::string_view original_name = "pkg.whence.original_name";
inline constexpr std::string_view carry = "pkg.whence.carry";  // "doc_string": its last line is ours (carried_token.h)

// whence's, on the model
// Operations that were computed while exporting, so that no node is left of their own: "0-5,9", indices as in `op`.
inline constexpr std::string_view folded = "pkg.whence.folded";
inline constexpr std::string_view program = "pkg.whence.program";  // program_digest() of what was exported
inline constexpr std::string_view matched = "pkg.whence.matched";  // program_digest() of the sidecar of a foreign file
// Values of it that are not a program's digest: this and the digest of the file that was given, or the names alone.
inline constexpr std::string_view file_before = "file:", own_names = "names";
// program_digest() of the program whose operations `op` on the nodes names, where the file before a tool said them and
// neither of the two above does.
inline constexpr std::string_view stamped = "pkg.whence.stamped";
inline constexpr std::string_view annotated = "pkg.whence.annotated";  // whence's version; there once annotate ran
inline constexpr std::string_view original_ir_version = "pkg.whence.original_ir_version";  // when annotate raised it
// The data files of the weights before the file was written into another folder: {"one.onnx.data": "w.bin"}
// (carried_data.h).
inline constexpr std::string_view data_files = "pkg.whence.data_files";

}  // namespace whence::origin::keys
