// NodeKeys: computes the metadata entries that annotate writes on a node from the operations that the node represents.
// PyTorch's five keys have PyTorch's own format (torch/onnx/_internal/exporter/_core.py of 2.13, _set_node_metadata).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annotator/graph/graph.h"
#include "annotator/metadata/call_path.h"
#include "annotator/metadata/fx_names.h"
#include "annotator/metadata/operation_ids.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/origin/confidence.h"
#include "schema/program.h"

namespace whence::metadata {

// Returns all keys that annotate can write on nodes, in writing order. The stamp is not among them: export writes it.
const std::vector<std::string_view>& annotation_keys();

// Returns the full key for a short or full name: "namespace", "module" or "pkg.whence.module", "class_hierarchy" or
// "pkg.torch.onnx.class_hierarchy". nullopt if there is none.
std::optional<std::string_view> find_annotation_key(std::string_view name);

using KeyEntries = std::vector<std::pair<std::string_view, std::string>>;

// Adds the call path of the node to the entries to write, unless PyTorch's scopes state it. Existing scopes are never
// changed. `existing_metadata`: the entries already on the node.
void add_call_path(const onnx_file::OnnxProperties& existing_metadata, KeyEntries& entries);

// Returns the operator in the format of the key `confidence_operator`: "com.microsoft::FusedConv".
std::string operator_name(std::string_view domain, std::string_view op_type);

// Returns the confidence that the keys on a node of this operator state; nullopt if they contain no module. Every
// reader of the keys counts this confidence. If the confidence is missing or invalid because a tool removed it, returns
// unstated_confidence. If a runtime's operator has keys that were not written for it, they come from a node that was
// fused into it, so the result is at most `inferred`.
std::optional<origin::Confidence> stated_confidence(std::string_view domain, std::string_view op_type,
                                                    const onnx_file::OnnxProperties& metadata);

// Adds the confidence to the entries to write: a module is never written without it, whatever keys were requested.
void state_confidence(origin::Confidence confidence, KeyEntries& entries);

// The origin of a node, from export's stamp or from the match engine.
struct NodePlace {
  origin::NodeOrigin origin;  // ops may be empty; then only the scope is known
  ScopeId scope = root_scope;
  origin::Confidence confidence = origin::Confidence::unattributed;
  std::string_view rule;
  std::string_view op_type;  // the operator of the node
};

class NodeKeys {
 public:
  // `program` must outlive this object. `requested_keys`: full keys.
  NodeKeys(const Program& program, std::vector<std::string_view> requested_keys);

  const FxNames& names() const { return names_; }
  bool is_requested(std::string_view key) const;
  bool has_operations(const origin::NodeOrigin& origin) const;  // true if all are operations of the program
  // Returns the scope of the node's operation; for several operations, the deepest scope that contains them all.
  ScopeId scope(const origin::NodeOrigin& origin) const;
  // Returns the weakest confidence of the operations; `ancestor` for a helper of operations in several scopes.
  origin::Confidence confidence(const origin::NodeOrigin& origin) const;
  std::vector<std::pair<std::string_view, std::string>> of(const origin::NodeOrigin& origin,
                                                           std::string_view op_type) const;
  std::vector<std::pair<std::string_view, std::string>> of(const NodePlace& place) const;
  // Returns the confidence of a node that whence exported. `domain`: the domain of its operator.
  origin::Confidence confidence_of_export(const origin::NodeOrigin& origin, std::string_view domain) const;
  // Returns the entries to add to a node that whence exported.
  KeyEntries of_export(const origin::NodeOrigin& origin, std::string_view domain, std::string_view op_type,
                       const onnx_file::OnnxProperties& existing_metadata) const;
  // Returns the module path in the name of a node with this origin.
  std::string path(const origin::NodeOrigin& origin) const;

 private:
  bool has_one_scope(const origin::NodeOrigin& origin) const;  // false for a helper of operations in several scopes
  std::optional<std::string> value(std::string_view key, const NodePlace& place) const;
  std::optional<std::string> value(std::string_view key, const NodePlace& place, std::int32_t op) const;
  std::vector<ModuleId> modules_on_path(ScopeId scope) const;     // root first
  std::vector<CalledModule> called_modules(ScopeId scope) const;  // root first, the scope itself last
  std::optional<std::string> calls(ScopeId scope) const;
  std::string call_path(ScopeId scope) const;
  std::string name_space(const Node& node, ScopeId scope) const;
  std::string class_hierarchy(const Node& node, ScopeId scope) const;
  std::string name_scopes(const Node& node, ScopeId scope) const;
  bool pytorch_lists_modules(const Node& node) const;
  std::vector<ModuleId> modules_in_stack(const Node& node, ScopeId scope) const;
  std::optional<std::string> stack_trace(const Node& node) const;
  std::optional<std::string> source(const Node& node) const;
  // Return every module of a fused node; nothing for one.
  std::vector<std::string> several_modules(const origin::NodeOrigin& origin) const;
  std::optional<std::string> modules(const origin::NodeOrigin& origin) const;
  std::optional<std::string> primary(const NodePlace& place) const;
  std::optional<std::string> id(const NodePlace& place) const;

  const Program& program_;
  std::vector<std::string_view> requested_keys_;
  std::vector<const Node*> operations_;
  FxNames names_;
  std::optional<OperationIds> ids_;  // set if the key `id` is requested
};

}  // namespace whence::metadata
