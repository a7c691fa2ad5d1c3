// NodeKeys: what annotate says of one node: every metadata key with its value, from the operations the node stands for.
// PyTorch's five keys have PyTorch's own format (torch/onnx/_internal/exporter/_core.py of 2.13, _set_node_metadata).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annotator/graph/graph.h"
#include "annotator/metadata/fx_names.h"
#include "annotator/metadata/operation_ids.h"
#include "annotator/metadata/way.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/origin/confidence.h"
#include "schema/program.h"

namespace whence::metadata {

// All keys that annotate can write on nodes, in the order in which it writes them. The stamp is export's.
const std::vector<std::string_view>& annotation_keys();

// "namespace", "class_hierarchy" or "pkg.torch.onnx.class_hierarchy", "module" or "pkg.whence.module": the full key;
// nullopt when there is none.
std::optional<std::string_view> find_annotation_key(std::string_view name);

using KeyEntries = std::vector<std::pair<std::string_view, std::string>>;

// Adds the way to the node's module to the entries that the node will get, if PyTorch's scopes, which stay as they are,
// do not state it. `existing_metadata`: the entries that the node has.
void state_way(const onnx_file::OnnxProperties& existing_metadata, KeyEntries& entries);

// "com.microsoft::FusedConv": an operator as the key `confidence_operator` names it.
std::string operator_name(std::string_view domain, std::string_view op_type);

// The confidence that the keys of a node of this operator state, as annotate and every reader counts it; nullopt when
// they name no module. Without a word that is known, a tool took it off: unstated_confidence. An operator of a runtime
// whose keys were not written for it has them from a node that it took in, and is inferred at most.
std::optional<origin::Confidence> stated_confidence(std::string_view domain, std::string_view op_type,
                                                    const onnx_file::OnnxProperties& metadata);

// Adds the confidence to the entries that a node will get: a module never stands without it, whatever keys were chosen.
void state_confidence(origin::Confidence confidence, KeyEntries& entries);

// The place that export's stamp or the match engine found for a node.
struct NodePlace {
  origin::NodeOrigin origin;  // ops may be empty: then the scope is all that is known
  ScopeId scope = root_scope;
  origin::Confidence confidence = origin::Confidence::unattributed;
  std::string_view rule;
};

class NodeKeys {
 public:
  // `program` must outlive the keys. `wanted`: full keys.
  NodeKeys(const Program& program, std::vector<std::string_view> requested_keys);

  const FxNames& names() const { return names_; }
  bool wants(std::string_view key) const;
  bool knows(const origin::NodeOrigin& origin) const;  // the operations are the program's
  // The scope of the node's operation; if there are several, the deepest scope that holds them all.
  ScopeId scope(const origin::NodeOrigin& origin) const;
  // The confidence of its least sure operation; `ancestor` for helpers of several.
  origin::Confidence confidence(const origin::NodeOrigin& origin) const;
  std::vector<std::pair<std::string_view, std::string>> of(const origin::NodeOrigin& origin) const;
  std::vector<std::pair<std::string_view, std::string>> of(const NodePlace& place) const;
  // The confidence of a node that whence exported; `domain`: of its operator.
  origin::Confidence confidence_of_export(const origin::NodeOrigin& origin, std::string_view domain) const;
  // The entries of a node that whence exported, beside those that it has.
  KeyEntries of_export(const origin::NodeOrigin& origin, std::string_view domain,
                       const onnx_file::OnnxProperties& existing_metadata) const;
  // The path of the module that a node of such an origin is named after.
  std::string path(const origin::NodeOrigin& origin) const;

 private:
  bool of_one_scope(const origin::NodeOrigin& origin) const;  // false: a helper that serves several
  std::optional<std::string> value(std::string_view key, const NodePlace& place) const;
  std::optional<std::string> value(std::string_view key, const NodePlace& place, std::int32_t op) const;
  std::vector<ModuleId> modules_on_path(ScopeId scope) const;  // root first
  std::vector<CalledModule> way_to(ScopeId scope) const;       // root first, the scope itself last
  std::optional<std::string> calls(ScopeId scope) const;
  std::string way(ScopeId scope) const;
  std::string name_space(const Node& node, ScopeId scope) const;
  std::string class_hierarchy(const Node& node, ScopeId scope) const;
  std::string name_scopes(const Node& node, ScopeId scope) const;
  bool pytorch_says_modules(const Node& node) const;
  std::vector<ModuleId> modules_in_stack(const Node& node, ScopeId scope) const;
  std::optional<std::string> stack_trace(const Node& node) const;
  std::optional<std::string> source(const Node& node) const;
  std::optional<std::string> modules(const origin::NodeOrigin& origin) const;
  std::optional<std::string> id(const NodePlace& place) const;

  const Program& program_;
  std::vector<std::string_view> requested_keys_;
  std::vector<const Node*> operations_;
  FxNames names_;
  std::optional<OperationIds> ids_;  // set where the key is asked for
};

}  // namespace whence::metadata
